//! Commands about users: `AUTH` and `ACL`.

use super::connection::no_password;
use crate::resp::arguments::{syntax_error, text};
use crate::resp::login::Login;
use crate::resp::reply::Reply;
use crate::resp::rights::Needs;
use crate::resp::session::{Call, Handled};
use crate::resp::table::{Group, Run, Spec};
use crate::security::{Area, DEFAULT_USER, Right, Secret};

/// The commands of this file.
pub const COMMANDS: &[Spec] = &[
    of("auth", -2, Run::Control(auth))
        .without_data()
        .syntax("[user] password")
        .about("Says who asks"),
    of("acl", -2, Run::Session(acl))
        .without_data()
        .needs(Needs::Words(acl_right))
        .audited_for("USERS")
        .syntax("WHOAMI | USERS [argument ...]")
        .about("ACL WHOAMI: who asks; ACL USERS: who there is"),
];

const fn of(name: &'static str, arity: i32, run: Run) -> Spec {
    Spec::new(name, arity, Group::Connection, run)
}

fn auth(call: &mut Call<'_>) -> Handled {
    let (name, password) = match call.words {
        [_, password] => (DEFAULT_USER.as_bytes(), password),
        [_, name, password] => (*name, password),
        _ => return Handled::Reply(syntax_error()),
    };
    log_in(call, name, password, None).unwrap_or_else(Handled::Reply)
}

/// Starts a login. Fails if the server has no users.
pub fn log_in(
    call: &mut Call<'_>,
    name: &[u8],
    password: &[u8],
    greeting: Option<super::connection::Greeting>,
) -> Result<Handled, Reply> {
    if !call.shared().security.asks() {
        return Err(no_password());
    }
    // User names are UTF-8. Any other name fails like a wrong name, at the same cost, so that timing
    // reveals nothing.
    let name = text(name).unwrap_or_default().to_owned();
    Ok(call.session.log_in(Login::new(name, Secret::new(password), greeting)))
}

fn acl_right(words: &[&[u8]]) -> Option<Right> {
    let is_own = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"WHOAMI"));
    (!is_own).then_some(Right::read(Area::Admin))
}

fn acl(call: &mut Call<'_>) -> Reply {
    let mut arguments = call.arguments();
    let user = call.session.user.as_ref().map_or(DEFAULT_USER, |user| user.name());
    if arguments.take("WHOAMI") && arguments.left() == 0 {
        Reply::text(user)
    } else if arguments.take("USERS") && arguments.left() == 0 {
        Reply::texts(call.shared().security.user_names())
    } else {
        Reply::error(
            "ERR only ACL WHOAMI and ACL USERS are known: users are given when the server starts",
        )
    }
}
