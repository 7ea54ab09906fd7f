//! Connection commands: `PING`, `HELLO`, `CLIENT` and others.

use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::multi;
use crate::resp::reply::{OK, Protocol, Reply};
use crate::resp::rights::Needs;
use crate::resp::session::{Call, Handled, Session};
use crate::resp::table::{self, Group, Run, Spec, wrong_arity};
use crate::security::{Area, Right};
use std::collections::HashSet;

/// The longest client or library name in bytes. The limit exists because the server stores it for the
/// client list.
const NAME_LIMIT_BYTES: usize = 256;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("ping", -1, Run::Session(ping))
        .without_data()
        .syntax("[text]")
        .about("Answers PONG, or what it was given"),
    of("echo", 2, Run::Session(echo))
        .without_data()
        .syntax("text")
        .about("Answers what it was given"),
    of("hello", -1, Run::Control(hello))
        .without_data()
        .syntax("[2 | 3] [AUTH user password] [SETNAME name]")
        .about("Says who is here, and in which protocol"),
    of("select", 2, Run::Session(select))
        .without_data()
        .syntax("0")
        .about("There is one database, number 0"),
    of("quit", -1, Run::Control(quit)).without_data().about("Closes the connection"),
    of("reset", 1, Run::Control(reset))
        .without_data()
        .about("Sets the connection back to how it began"),
    of("client", -2, Run::Session(client))
        .without_data()
        .syntax(
            "ID | GETNAME | SETNAME | SETINFO | INFO | LIST | NO-EVICT | NO-TOUCH [argument ...]",
        )
        .needs(Needs::Words(client_right))
        .about("What is known of connections"),
];

const fn of(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Connection, run)
}

fn ping(call: &mut Call<'_>) -> Reply {
    match call.words {
        [_] => Reply::Status("PONG"),
        [_, message] => Reply::text(message),
        _ => wrong_arity("ping"),
    }
}

fn echo(call: &mut Call<'_>) -> Reply {
    Reply::text(call.words[1])
}

/// The options of `HELLO`.
pub struct Greeting {
    protocol: Protocol,
    name: Option<String>,
}

fn hello(call: &mut Call<'_>) -> Handled {
    heard(call).unwrap_or_else(Handled::Reply)
}

fn protocol(version: &[u8]) -> Result<Protocol, Reply> {
    match version {
        b"2" => Ok(Protocol::Two),
        b"3" => Ok(Protocol::Three),
        other if other.iter().all(u8::is_ascii_digit) => {
            Err(Reply::error("NOPROTO unsupported protocol version"))
        }
        _ => Err(Reply::error("ERR Protocol version is not an integer or out of range")),
    }
}

fn heard(call: &mut Call<'_>) -> Result<Handled, Reply> {
    let mut arguments = call.arguments();
    let protocol = arguments.shift().map_or(Ok(call.session.protocol), protocol)?;
    let mut greeting = Greeting { protocol, name: None };
    let mut credentials = None;
    while arguments.left() > 0 {
        if arguments.take("SETNAME") {
            greeting.name = Some(client_name(arguments.word()?)?)
        } else if arguments.take("AUTH") {
            credentials = Some((arguments.word()?, arguments.word()?));
        } else {
            return Err(Reply::error("ERR Syntax error in HELLO option"));
        }
    }
    match credentials {
        Some((name, password)) => super::users::log_in(call, name, password, Some(greeting)),
        None if call.session.user.is_none() => Err(Reply::error(HELLO_WITHOUT_AUTH)),
        None => Ok(Handled::Reply(greet(call.session, greeting))),
    }
}

const HELLO_WITHOUT_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, \
     otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
     select the RESP protocol version at the same time";

/// Applies the options of `HELLO`, and returns the description of the server.
pub fn greet(session: &mut Session, greeting: Greeting) -> Reply {
    session.protocol = greeting.protocol;
    if let Some(name) = greeting.name {
        session.name = name;
    }
    session.tell_of_itself();
    who_is_here(session, greeting.protocol)
}

fn who_is_here(session: &Session, protocol: Protocol) -> Reply {
    let version = match protocol {
        Protocol::Two => 2,
        Protocol::Three => 3,
    };
    let pair = |name: &str, value: Reply| (Reply::text(name), value);
    Reply::Map(vec![
        pair("server", Reply::text("mainstay")),
        pair("version", Reply::text(env!("CARGO_PKG_VERSION"))),
        pair("proto", Reply::Int(version)),
        pair("id", Reply::number(session.id)),
        pair("mode", Reply::text("standalone")),
        pair("role", Reply::text("master")),
        pair("modules", Reply::Array(Vec::new())),
    ])
}

/// The error of Redis if no users are configured.
pub fn no_password() -> Reply {
    Reply::error(
        "ERR AUTH <password> called without any password configured for the default user. Are you \
         sure your configuration is correct?",
    )
}

fn select(call: &mut Call<'_>) -> Reply {
    match call.arguments().whole() {
        Ok(0) => OK,
        Ok(_) => Reply::error("ERR DB index is out of range"),
        Err(reply) => reply,
    }
}

fn quit(_: &mut Call<'_>) -> Handled {
    Handled::Close(OK)
}

fn reset(call: &mut Call<'_>) -> Handled {
    multi::reset(call.session);
    Handled::Reply(Reply::Status("RESET"))
}

/// Listing other clients needs a permission.
fn client_right(words: &[&[u8]]) -> Option<Right> {
    let is_list = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"LIST"));
    is_list.then_some(Right::read(Area::Server))
}

fn client(call: &mut Call<'_>) -> Reply {
    about_client(call).unwrap_or_else(|reply| reply)
}

fn about_client(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let mut arguments = call.arguments();
    let what = arguments.word()?.to_ascii_uppercase();
    match what.as_slice() {
        b"ID" => Ok(Reply::number(call.session.id)),
        b"GETNAME" if call.session.name.is_empty() => Ok(Reply::Nil),
        b"GETNAME" => Ok(Reply::text(&call.session.name)),
        b"SETNAME" => {
            call.session.name = client_name(arguments.word()?)?;
            call.session.tell_of_itself();
            Ok(OK)
        }
        b"SETINFO" => set_info(call, &mut arguments),
        b"INFO" => Ok(Reply::text(call.session.describe() + "\n")),
        b"LIST" => list(call, &mut arguments),
        b"HELP" => Ok(table::named(b"client").map_or(Reply::Nil, Spec::help)),
        b"NO-EVICT" | b"NO-TOUCH" => on_or_off(&mut arguments),
        _ => {
            let what = String::from_utf8_lossy(&what).into_owned();
            Err(Reply::error(format!("ERR unknown subcommand '{what}'. Try CLIENT HELP.")))
        }
    }
}

fn list(call: &Call<'_>, arguments: &mut Arguments<'_>) -> Result<Reply, Reply> {
    if arguments.left() == 0 {
        return Ok(Reply::text(call.shared().list_clients(|_| true)));
    }
    if arguments.take("TYPE") {
        let normal = arguments.take("NORMAL");
        if !normal {
            arguments.word()?;
        }
        return arguments.end().map(|()| Reply::text(call.shared().list_clients(|_| normal)));
    }
    if !arguments.take("ID") {
        return Err(syntax_error());
    }
    let mut wanted = HashSet::from([arguments.count()?]);
    while arguments.left() > 0 {
        wanted.insert(arguments.count()?);
    }
    Ok(Reply::text(call.shared().list_clients(|id| wanted.contains(&id))))
}

fn on_or_off(arguments: &mut Arguments<'_>) -> Result<Reply, Reply> {
    if arguments.take("ON") || arguments.take("OFF") {
        arguments.end().map(|()| OK)
    } else {
        Err(syntax_error())
    }
}

fn client_name(name: &[u8]) -> Result<String, Reply> {
    if name.len() > NAME_LIMIT_BYTES {
        return Err(name_too_long());
    }
    let fits = name.iter().all(u8::is_ascii_graphic);
    if !fits {
        let message = "ERR Client names cannot contain spaces, newlines or special characters.";
        return Err(Reply::error(message));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

fn name_too_long() -> Reply {
    Reply::error(format!(
        "ERR names of clients and libraries have at most {NAME_LIMIT_BYTES} bytes"
    ))
}

fn set_info(call: &mut Call<'_>, arguments: &mut Arguments<'_>) -> Result<Reply, Reply> {
    let version = arguments.take("LIB-VER");
    if !version && !arguments.take("LIB-NAME") {
        let what = String::from_utf8_lossy(arguments.word()?).into_owned();
        return Err(Reply::error(format!("ERR Unrecognized option '{what}'")));
    }
    let text = arguments.text()?.to_owned();
    if text.len() > NAME_LIMIT_BYTES {
        return Err(name_too_long());
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = if version { "lib-ver" } else { "lib-name" };
        let message = format!("ERR {what} cannot contain spaces, newlines or special characters.");
        return Err(Reply::error(message));
    }
    let library = &mut call.session.library;
    *(if version { &mut library.1 } else { &mut library.0 }) = text;
    call.session.tell_of_itself();
    Ok(OK)
}
