//! Password sources: a file, the environment, or a terminal. Never an argument, because other users of the
//! machine can see arguments.

use super::args::StoreArgs;
use super::failure::{Failure, Result};
use mainstay_server::security::{DEFAULT_USER, Secret};
use std::io::{BufRead, IsTerminal, Read, stdin};
use std::path::Path;

/// The environment variable for a password.
pub const VARIABLE: &str = "MAINSTAY_PASSWORD";
/// The longest password. At most this much of a password file is read.
const LIMIT_BYTES: u64 = 4096;

/// The user name and password for a server.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The user name.
    pub user: String,
    /// The user's password.
    pub password: Secret,
}

impl Credentials {
    /// Finds the credentials in the options, the environment or by a prompt; `None` if no user and no
    /// password is given.
    pub fn find(store: &StoreArgs) -> Result<Option<Credentials>> {
        let given = match (&store.password_file, std::env::var_os(VARIABLE)) {
            (Some(path), _) => Some(read_file(path)?),
            (None, Some(text)) => Some(Secret::new(text.into_encoded_bytes())),
            (None, None) => None,
        };
        let user = store.user.as_deref();
        match (user, given) {
            (None, None) => Ok(None),
            (user, Some(password)) => {
                let user = user.unwrap_or(DEFAULT_USER).to_owned();
                Ok(Some(Credentials { user, password }))
            }
            (Some(user), None) => {
                let password = prompt(user)?;
                Ok(Some(Credentials { user: user.to_owned(), password }))
            }
        }
    }
}

fn read_file(path: &Path) -> Result<Secret> {
    let unread = |error| {
        let path = path.display();
        Failure::error(format!("the password file {path} cannot be read: {error}"))
    };
    let file = std::fs::File::open(path).map_err(unread)?;
    first_line(std::io::BufReader::new(file)).map_err(unread)
}

/// Reads the first line. A password may contain any byte except line ends.
fn first_line(mut input: impl BufRead) -> std::io::Result<Secret> {
    let mut line = Vec::new();
    input.by_ref().take(LIMIT_BYTES).read_until(b'\n', &mut line)?;
    let line = line.strip_suffix(b"\n").unwrap_or(&line);
    Ok(Secret::new(line.strip_suffix(b"\r").unwrap_or(line)))
}

fn prompt(user: &str) -> Result<Secret> {
    if !stdin().is_terminal() {
        return Err(Failure::error(format!(
            "the password of {user} is missing: put it into {VARIABLE}, or name a file that holds it \
             with --password-file"
        )));
    }
    read_hidden(&format!("Password of {user}: "))
}

/// Prompts on the terminal without echo.
fn read_hidden(prompt: &str) -> Result<Secret> {
    let typed = rpassword::prompt_password(prompt);
    typed.map(Secret::new).map_err(|error| Failure::error(format!("the terminal: {error}")))
}

/// Reads a new password: typed twice, or the first line of the standard input.
pub fn read_new() -> Result<Secret> {
    let password = if stdin().is_terminal() {
        prompt_twice()?
    } else {
        first_line(stdin().lock())
            .map_err(|error| Failure::error(format!("the standard input: {error}")))?
    };
    if password.expose().is_empty() {
        Err(Failure::error("an empty password protects nothing: give one with a few words"))
    } else {
        Ok(password)
    }
}

fn prompt_twice() -> Result<Secret> {
    let first = read_hidden("New password: ")?;
    let second = read_hidden("Once more: ")?;
    if first == second {
        Ok(first)
    } else {
        Err(Failure::error("the two passwords differ: nothing was made of them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_one_line_without_its_end() {
        let read = |text: &[u8]| first_line(text).unwrap().expose().to_vec();
        assert_eq!(read(b"a b \n second"), b"a b ");
        assert_eq!(read(b"a\r\n"), b"a");
        assert_eq!(read(b"a"), b"a");
        assert_eq!(read(b"\xff\n"), b"\xff");
        assert_eq!(read(b""), b"");
    }
}
