//! Commands about users: `AUTH` and `ACL`.

use super::connection::no_password;
use crate::resp::arguments::{syntax_error, text};
use crate::resp::connection_state::{CommandContext, CommandOutcome};
use crate::resp::login::Login;
use crate::resp::permissions::Requirement;
use crate::resp::reply::Reply;
use crate::resp::table::{Group, Handler, Spec};
use crate::security::{Area, DEFAULT_USER, Right, Secret};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("auth", -2, Handler::Control(auth))
        .without_data()
        .syntax("[user] password")
        .summarize("Says who asks"),
    of("acl", -2, Handler::Immediate(acl))
        .without_data()
        .requires(Requirement::Words(acl_permission))
        .audited_for("USERS")
        .syntax("WHOAMI | USERS [argument ...]")
        .summarize("ACL WHOAMI: who asks; ACL USERS: who there is"),
];

const fn of(name: &'static str, arity: i32, run: Handler) -> Spec {
    Spec::new(name, arity, Group::Connection, run)
}

fn auth(context: &mut CommandContext<'_>) -> CommandOutcome {
    let (name, password) = match context.words {
        [_, password] => (DEFAULT_USER.as_bytes(), password),
        [_, name, password] => (*name, password),
        _ => return CommandOutcome::Reply(syntax_error()),
    };
    start_login(context, name, password, None).unwrap_or_else(CommandOutcome::Reply)
}

/// Starts a login. Fails if the server has no users.
pub fn start_login(
    context: &mut CommandContext<'_>,
    name: &[u8],
    password: &[u8],
    greeting: Option<super::connection::HelloOptions>,
) -> Result<CommandOutcome, Reply> {
    if !context.shared().security.asks() {
        return Err(no_password());
    }
    // User names are UTF-8. Any other name fails like a wrong name, at the same cost, so that timing
    // reveals nothing.
    let name = text(name).unwrap_or_default().to_owned();
    Ok(context.state.start_login(Login::new(name, Secret::new(password), greeting)))
}

fn acl_permission(words: &[&[u8]]) -> Option<Right> {
    let is_own = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"WHOAMI"));
    (!is_own).then_some(Right::read(Area::Admin))
}

fn acl(context: &mut CommandContext<'_>) -> Reply {
    let mut arguments = context.arguments();
    let user = context.state.user.as_ref().map_or(DEFAULT_USER, |user| user.name());
    if arguments.take_keyword("WHOAMI") && arguments.remaining() == 0 {
        Reply::text(user)
    } else if arguments.take_keyword("USERS") && arguments.remaining() == 0 {
        Reply::texts(context.shared().security.user_names())
    } else {
        Reply::error(
            "ERR only ACL WHOAMI and ACL USERS are known: users are given when the server starts",
        )
    }
}
