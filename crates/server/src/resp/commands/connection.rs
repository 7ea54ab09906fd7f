//! Connection commands: `PING`, `HELLO`, `CLIENT` and others.

use crate::resp::arguments::{Arguments, syntax_error};
use crate::resp::connection_state::{CommandContext, CommandOutcome, ConnectionState};
use crate::resp::multi;
use crate::resp::permissions::Requirement;
use crate::resp::reply::{OK, Protocol, Reply};
use crate::resp::table::{self, Group, Handler, Spec, wrong_arity};
use crate::security::{Area, Right};
use std::collections::HashSet;

/// The longest client or library name in bytes. The limit exists because the server stores it for the
/// client list.
const NAME_LIMIT_BYTES: usize = 256;

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("ping", -1, Handler::Immediate(ping))
        .without_data()
        .syntax("[text]")
        .summarize("Answers PONG, or what it was given"),
    of("echo", 2, Handler::Immediate(echo))
        .without_data()
        .syntax("text")
        .summarize("Answers what it was given"),
    of("hello", -1, Handler::Control(hello))
        .without_data()
        .syntax("[2 | 3] [AUTH user password] [SETNAME name]")
        .summarize("Says who is here, and in which protocol"),
    of("select", 2, Handler::Immediate(select))
        .without_data()
        .syntax("0")
        .summarize("There is one database, number 0"),
    of("quit", -1, Handler::Control(quit)).without_data().summarize("Closes the connection"),
    of("reset", 1, Handler::Control(reset))
        .without_data()
        .summarize("Sets the connection back to how it began"),
    of("client", -2, Handler::Immediate(client))
        .without_data()
        .syntax(
            "ID | GETNAME | SETNAME | SETINFO | INFO | LIST | NO-EVICT | NO-TOUCH [argument ...]",
        )
        .requires(Requirement::Words(client_permission))
        .summarize("What is known of connections"),
];

const fn of(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Connection, run)
}

fn ping(context: &mut CommandContext<'_>) -> Reply {
    match context.words {
        [_] => Reply::Status("PONG"),
        [_, message] => Reply::text(message),
        _ => wrong_arity("ping"),
    }
}

fn echo(context: &mut CommandContext<'_>) -> Reply {
    Reply::text(context.words[1])
}

/// The options of `HELLO`.
pub struct HelloOptions {
    protocol: Protocol,
    name: Option<String>,
}

fn hello(context: &mut CommandContext<'_>) -> CommandOutcome {
    try_hello(context).unwrap_or_else(CommandOutcome::Reply)
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

fn try_hello(context: &mut CommandContext<'_>) -> Result<CommandOutcome, Reply> {
    let mut arguments = context.arguments();
    let protocol = arguments.shift().map_or(Ok(context.state.protocol), protocol)?;
    let mut options = HelloOptions { protocol, name: None };
    let mut credentials = None;
    while arguments.remaining() > 0 {
        if arguments.take_keyword("SETNAME") {
            options.name = Some(client_name(arguments.word()?)?)
        } else if arguments.take_keyword("AUTH") {
            credentials = Some((arguments.word()?, arguments.word()?));
        } else {
            return Err(Reply::error("ERR Syntax error in HELLO option"));
        }
    }
    match credentials {
        Some((name, password)) => super::users::start_login(context, name, password, Some(options)),
        None if context.state.user.is_none() => Err(Reply::error(HELLO_WITHOUT_AUTH)),
        None => Ok(CommandOutcome::Reply(apply_hello(context.state, options))),
    }
}

const HELLO_WITHOUT_AUTH: &str = "NOAUTH HELLO must be called with the client already authenticated, \
     otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and \
     select the RESP protocol version at the same time";

/// Applies the options of `HELLO`, and returns the description of the server.
pub fn apply_hello(state: &mut ConnectionState, options: HelloOptions) -> Reply {
    state.protocol = options.protocol;
    if let Some(name) = options.name {
        state.name = name;
    }
    state.update_client_list();
    server_description(state, options.protocol)
}

fn server_description(state: &ConnectionState, protocol: Protocol) -> Reply {
    let version = match protocol {
        Protocol::Two => 2,
        Protocol::Three => 3,
    };
    let pair = |name: &str, value: Reply| (Reply::text(name), value);
    Reply::Map(vec![
        pair("server", Reply::text("mainstay")),
        pair("version", Reply::text(env!("CARGO_PKG_VERSION"))),
        pair("proto", Reply::Int(version)),
        pair("id", Reply::number(state.id)),
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

fn select(context: &mut CommandContext<'_>) -> Reply {
    match context.arguments().integer() {
        Ok(0) => OK,
        Ok(_) => Reply::error("ERR DB index is out of range"),
        Err(reply) => reply,
    }
}

fn quit(_: &mut CommandContext<'_>) -> CommandOutcome {
    CommandOutcome::Close(OK)
}

fn reset(context: &mut CommandContext<'_>) -> CommandOutcome {
    multi::reset(context.state);
    CommandOutcome::Reply(Reply::Status("RESET"))
}

/// Listing other clients needs a permission.
fn client_permission(words: &[&[u8]]) -> Option<Right> {
    let is_list = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"LIST"));
    is_list.then_some(Right::read(Area::Server))
}

fn client(context: &mut CommandContext<'_>) -> Reply {
    run_client(context).unwrap_or_else(|reply| reply)
}

fn run_client(context: &mut CommandContext<'_>) -> Result<Reply, Reply> {
    let mut arguments = context.arguments();
    let what = arguments.word()?.to_ascii_uppercase();
    match what.as_slice() {
        b"ID" => Ok(Reply::number(context.state.id)),
        b"GETNAME" if context.state.name.is_empty() => Ok(Reply::Nil),
        b"GETNAME" => Ok(Reply::text(&context.state.name)),
        b"SETNAME" => {
            context.state.name = client_name(arguments.word()?)?;
            context.state.update_client_list();
            Ok(OK)
        }
        b"SETINFO" => set_info(context, &mut arguments),
        b"INFO" => Ok(Reply::text(context.state.describe() + "\n")),
        b"LIST" => list(context, &mut arguments),
        b"HELP" => Ok(table::by_name(b"client").map_or(Reply::Nil, Spec::help)),
        b"NO-EVICT" | b"NO-TOUCH" => on_or_off(&mut arguments),
        _ => {
            let what = String::from_utf8_lossy(&what).into_owned();
            Err(Reply::error(format!("ERR unknown subcommand '{what}'. Try CLIENT HELP.")))
        }
    }
}

fn list(context: &CommandContext<'_>, arguments: &mut Arguments<'_>) -> Result<Reply, Reply> {
    if arguments.remaining() == 0 {
        return Ok(Reply::text(context.shared().list_clients(|_| true)));
    }
    if arguments.take_keyword("TYPE") {
        let normal = arguments.take_keyword("NORMAL");
        if !normal {
            arguments.word()?;
        }
        return arguments.end().map(|()| Reply::text(context.shared().list_clients(|_| normal)));
    }
    if !arguments.take_keyword("ID") {
        return Err(syntax_error());
    }
    let mut wanted = HashSet::from([arguments.count()?]);
    while arguments.remaining() > 0 {
        wanted.insert(arguments.count()?);
    }
    Ok(Reply::text(context.shared().list_clients(|id| wanted.contains(&id))))
}

fn on_or_off(arguments: &mut Arguments<'_>) -> Result<Reply, Reply> {
    if arguments.take_keyword("ON") || arguments.take_keyword("OFF") {
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

fn set_info(
    context: &mut CommandContext<'_>,
    arguments: &mut Arguments<'_>,
) -> Result<Reply, Reply> {
    let version = arguments.take_keyword("LIB-VER");
    if !version && !arguments.take_keyword("LIB-NAME") {
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
    let library = &mut context.state.library;
    *(if version { &mut library.1 } else { &mut library.0 }) = text;
    context.state.update_client_list();
    Ok(OK)
}
