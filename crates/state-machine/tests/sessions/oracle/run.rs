//! The user's machine again, in the simplest possible code.

use super::{Kept, Letters, Oracle, bytes_of};
use crate::sample::{Command, NAMES, Said, What};
use mainstay_state_machine::{Codec, Postcard};

/// The result of user code: a response, whether it is an error, the new state, and requests.
type Ran = Result<(Said, bool, super::Data, Letters), &'static str>;

impl Oracle {
    pub(super) fn execute(
        &mut self,
        now: u64,
        caller: Option<&str>,
        command: &[u8],
        message_bytes: usize,
    ) -> (Kept, Vec<(String, u64, i64)>) {
        let ran = match <Postcard as Codec<Command>>::decode(command) {
            Ok(command) => self.run(now, caller, command.what),
            Err(_) => Err("InvalidValue"),
        };
        let ran = ran.and_then(|(said, is_error, data, letters)| {
            if bytes_of(&said) > self.limits.kept.bytes {
                return Err("ValueTooLarge");
            }
            if !self.has_room(now, &letters) {
                return Err("MailboxFull");
            }
            Ok((said, is_error, data, letters))
        });
        match ran {
            Ok((said, is_error, data, letters)) => {
                self.data = data;
                (Kept::Response { said, is_error }, self.deliver(now, letters))
            }
            Err(code) => {
                self.count("aborted", 1);
                (Kept::Aborted { code, message_bytes }, vec![])
            }
        }
    }

    /// Runs the user's machine.
    fn run(&self, now: u64, caller: Option<&str>, what: What) -> Ran {
        let mut data = self.data.clone();
        let mut add = |key: u8, n: i64| {
            let count = data.counts.entry(key).or_default();
            *count += n;
            *count
        };
        match what {
            What::Add { key, n } => Ok((Said::Number(add(key, n)), false, data, vec![])),
            What::Refuse { key, n } => Ok((Said::Number(add(key, n)), true, data, vec![])),
            What::Undo { key, n } => {
                Ok((Said::Number(add(key, n)), true, self.data.clone(), vec![]))
            }
            What::Fail { .. } => Err("Overflow"),
            What::Panic { .. } => Err("MachineFailed"),
            What::Big { key, bytes } => {
                let count = add(key, 1);
                let letters = caller.map(|caller| (caller.to_owned(), count));
                Ok((Said::Blob(vec![7; bytes]), false, data, letters.into_iter().collect()))
            }
            What::Tell { to, times } => {
                let to = NAMES[usize::from(to)];
                let letters = (0..times).map(|_| (to.to_owned(), add(200, 1))).collect();
                Ok((Said::Number(i64::from(self.is_live(now, to))), false, data, letters))
            }
            What::Who => {
                let live = self.sessions.iter().filter(|(_, session)| now < session.expires);
                Ok((Said::Names(live.map(|(name, _)| name.clone()).collect()), false, data, vec![]))
            }
        }
    }
}
