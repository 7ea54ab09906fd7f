//! The connection itself: `PING`, `HELLO`, `CLIENT` and the like.

use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::multi;
use crate::resp::reply::{OK, Protocol, Reply};
use crate::resp::session::{Call, Handled};
use crate::resp::table::{Group, Run, Spec, wrong_arity};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("ping", -1, Run::Session(ping)).syntax("[text]").about("Answers PONG, or what it was given"),
    of("echo", 2, Run::Session(echo)).syntax("text").about("Answers what it was given"),
    of("hello", -1, Run::Session(hello))
        .syntax("[2 | 3] [AUTH user password] [SETNAME name]")
        .about("Says who is here, and in which protocol"),
    of("auth", -2, Run::Session(auth)).syntax("[user] password").about("Says who asks"),
    of("select", 2, Run::Session(select)).syntax("0").about("There is one database, number 0"),
    of("quit", -1, Run::Control(quit)).about("Closes the connection"),
    of("reset", 1, Run::Control(reset)).about("Sets the connection back to how it began"),
    of("client", -2, Run::Session(client))
        .syntax(
            "ID | GETNAME | SETNAME | SETINFO | INFO | LIST | NO-EVICT | NO-TOUCH [argument ...]",
        )
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

fn hello(call: &mut Call<'_>) -> Reply {
    greet(call).unwrap_or_else(|reply| reply)
}

fn greet(call: &mut Call<'_>) -> Result<Reply, Reply> {
    let mut arguments = call.arguments();
    let protocol = match arguments.shift() {
        None => call.session.protocol,
        Some(b"2") => Protocol::Two,
        Some(b"3") => Protocol::Three,
        Some(other) if other.iter().all(u8::is_ascii_digit) => {
            return Err(Reply::error("NOPROTO unsupported protocol version"));
        }
        Some(_) => {
            let message = "ERR Protocol version is not an integer or out of range";
            return Err(Reply::error(message));
        }
    };
    while arguments.left() > 0 {
        greeting_option(call, &mut arguments)?;
    }
    call.session.protocol = protocol;
    Ok(who_is_here(call, protocol))
}

fn greeting_option(call: &mut Call<'_>, arguments: &mut Arguments<'_>) -> Result<(), Reply> {
    if arguments.take("SETNAME") {
        return set_name(call, arguments.word()?);
    }
    if arguments.take("AUTH") {
        arguments.word()?;
        arguments.word()?;
        return Err(no_password());
    }
    Err(Reply::error("ERR Syntax error in HELLO option"))
}

fn who_is_here(call: &Call<'_>, protocol: Protocol) -> Reply {
    let version = match protocol {
        Protocol::Two => 2,
        Protocol::Three => 3,
    };
    let pair = |name: &str, value: Reply| (Reply::text(name), value);
    Reply::Map(vec![
        pair("server", Reply::text("mainstay")),
        pair("version", Reply::text(env!("CARGO_PKG_VERSION"))),
        pair("proto", Reply::Int(version)),
        pair("id", Reply::number(call.session.id)),
        pair("mode", Reply::text("standalone")),
        pair("role", Reply::text("master")),
        pair("modules", Reply::Array(Vec::new())),
    ])
}

fn no_password() -> Reply {
    Reply::error(
        "ERR AUTH <password> called without any password configured for the default user. Are you \
         sure your configuration is correct?",
    )
}

fn auth(call: &mut Call<'_>) -> Reply {
    match call.words.len() {
        2 | 3 => no_password(),
        _ => syntax_error(),
    }
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
        b"SETNAME" => set_name(call, arguments.word()?).map(|()| OK),
        b"SETINFO" => set_info(call, &mut arguments),
        b"INFO" => Ok(Reply::text(call.session.describe() + "\n")),
        b"LIST" => Ok(Reply::text(call.shared().list_clients())),
        b"NO-EVICT" | b"NO-TOUCH" => on_or_off(&mut arguments),
        _ => {
            let what = String::from_utf8_lossy(&what).into_owned();
            Err(Reply::error(format!("ERR unknown subcommand '{what}'. Try CLIENT HELP.")))
        }
    }
}

fn on_or_off(arguments: &mut Arguments<'_>) -> Result<Reply, Reply> {
    match arguments.take("ON") || arguments.take("OFF") {
        true => arguments.end().map(|()| OK),
        false => Err(syntax_error()),
    }
}

fn set_name(call: &mut Call<'_>, name: &[u8]) -> Result<(), Reply> {
    let fits = name.iter().all(u8::is_ascii_graphic);
    if !fits {
        let message = "ERR Client names cannot contain spaces, newlines or special characters.";
        return Err(Reply::error(message));
    }
    call.session.name = String::from_utf8_lossy(name).into_owned();
    call.session.tell_of_itself();
    Ok(())
}

fn set_info(call: &mut Call<'_>, arguments: &mut Arguments<'_>) -> Result<Reply, Reply> {
    let version = arguments.take("LIB-VER");
    if !version && !arguments.take("LIB-NAME") {
        let what = String::from_utf8_lossy(arguments.word()?).into_owned();
        return Err(Reply::error(format!("ERR Unrecognized option '{what}'")));
    }
    let text = arguments.text()?.to_owned();
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
