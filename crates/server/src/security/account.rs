//! Accounts: users and their password hashes.

use super::password::Hash;
use super::prefixes::Prefixes;
use super::remembered::{Place, Remembered};
use super::right::{Rights, area_names};
use super::settings::{Settings, UserSettings};
use super::{Secret, User};
use mainstay::{Code, Error, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The longest user name.
const NAME_LIMIT_BYTES: usize = 128;

struct Account {
    user: Arc<User>,
    hash: Hash,
    place: Place,
}

pub(super) struct Accounts {
    by_name: BTreeMap<String, Account>,
    /// `None` without users.
    remembered: Option<Remembered>,
    verifications: AtomicU64,
}

impl Accounts {
    pub fn none() -> Accounts {
        Accounts { by_name: BTreeMap::new(), remembered: None, verifications: AtomicU64::new(0) }
    }

    /// Reads all users. Errors name the user.
    pub fn new(settings: &Settings) -> Result<Accounts> {
        if settings.users.is_empty() {
            return Ok(Accounts::none());
        }
        let mut by_name = BTreeMap::new();
        // A single user has the whole of each limit, because no other user needs a share.
        let is_one_of_many = settings.users.len() > 1;
        let percent = if is_one_of_many { settings.user_share_percent } else { 100 };
        let pace = is_one_of_many.then_some(settings.user_paced_bytes);
        for user in &settings.users {
            if by_name.insert(user.name.clone(), account(user, percent, pace)?).is_some() {
                return Err(wrong(user, "stands there twice: names are for one user each"));
            }
        }
        let remembered = Some(Remembered::new(settings.remember_ms)?);
        Ok(Accounts { by_name, remembered, ..Accounts::none() })
    }

    #[cfg(test)]
    pub fn user(&self, name: &str) -> Option<Arc<User>> {
        self.by_name.get(name).map(|account| account.user.clone())
    }

    /// Returns the part of a limit that belongs to one user.
    pub fn share_of(&self, limit: usize) -> usize {
        let first = self.by_name.values().next();
        first.map_or(limit, |account| account.user.share_of(limit))
    }

    pub fn names(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }

    pub fn knows(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the user if this password was verified recently.
    pub fn recall(&self, name: &str, password: &Secret) -> Option<Arc<User>> {
        let remembered = self.remembered.as_ref()?;
        let print = remembered.print(name, password);
        let account = self.by_name.get(name)?;
        remembered.holds(&account.place, &print).then(|| account.user.clone())
    }

    pub fn verifications(&self) -> u64 {
        self.verifications.load(Ordering::Relaxed)
    }

    /// Returns the account to verify a password against. For an unknown name it is the account with the
    /// most expensive hash, so that an unknown name costs as much as a wrong password.
    fn looked_at(&self, name: &str) -> Option<&Account> {
        self.by_name
            .get(name)
            .or_else(|| self.by_name.values().max_by_key(|account| account.hash.work))
    }

    /// Verifies the password and returns its user.
    pub fn verify(&self, name: &str, password: &Secret) -> Option<Arc<User>> {
        // An attempt with the same password may have completed while this one waited in the queue.
        if let Some(user) = self.recall(name, password) {
            return Some(user);
        }
        self.verifications.fetch_add(1, Ordering::Relaxed);
        let fits = self.looked_at(name)?.hash.fits(password);
        let account = self.by_name.get(name).filter(|_| fits)?;
        if let Some(remembered) = &self.remembered {
            remembered.keep(&account.place, remembered.print(name, password));
        }
        Some(account.user.clone())
    }
}

fn account(settings: &UserSettings, share_percent: u32, pace: Option<u64>) -> Result<Account> {
    check_name(settings)?;
    let hash = Hash::read(&settings.password_hash).map_err(|why| {
        let message = format!(
            "has a password_hash that cannot be used, {why}: make one with `mainstay user hash`"
        );
        wrong(settings, &message)
    })?;
    let rights = Rights::read(&settings.allow).map_err(|unknown| {
        let message = format!(
            "allows {unknown:?}, which there is not: there are {}, and all for all of them, each also with \
             :read or :write behind it",
            area_names()
        );
        wrong(settings, &message)
    })?;
    if rights.need_keys() && settings.prefixes.is_empty() {
        let message = "has no prefixes, so its rights reach no key: give what its keys begin with, \
                       or prefixes = [\"\"] for all keys";
        return Err(wrong(settings, message));
    }
    let prefixes = Prefixes::new(settings.prefixes.clone());
    let user = User::new(settings.name.clone(), rights, prefixes);
    let user = user.with_share(share_percent).with_pace(pace);
    Ok(Account { user: Arc::new(user), hash, place: Place::default() })
}

/// Names appear unescaped in Basic authentication, `CLIENT LIST` and the audit log.
fn check_name(settings: &UserSettings) -> Result<()> {
    let name = &settings.name;
    if !name.is_empty()
        && name.len() <= NAME_LIMIT_BYTES
        && name.chars().all(|c| !c.is_whitespace() && !c.is_control() && !matches!(c, ':' | '='))
    {
        Ok(())
    } else {
        Err(wrong(settings, "has a name that is empty, too long, or holds a space, `:` or `=`"))
    }
}

fn wrong(settings: &UserSettings, what: &str) -> Error {
    Error::new(Code::InvalidOption, format!("[security] the user {:?} {what}", settings.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(allow: &[&str], prefixes: &[&str]) -> UserSettings {
        let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        let password_hash = Secret::new(super::super::hash(&Secret::new("pw")).unwrap());
        let allow = texts(allow);
        let prefixes = texts(prefixes);
        UserSettings { name: "app".into(), password_hash, allow, prefixes }
    }

    fn said(user: UserSettings) -> String {
        let settings = Settings { users: vec![user], ..Settings::default() };
        Accounts::new(&settings).err().map(|error| error.message().to_owned()).unwrap_or_default()
    }

    #[test]
    fn what_is_wrong_with_a_user_is_said_and_no_secret_is_shown() {
        assert_eq!(said(settings(&["cells"], &["app:"])), "");
        assert_eq!(said(settings(&["server:read"], &[])), "", "it needs no keys");
        assert!(said(settings(&["cells"], &[])).contains("prefixes = [\"\"]"));
        assert!(said(settings(&["strings"], &[""])).contains("\"strings\", which there is not"));
        for name in ["", "a b", "a:b", "a\nb", &"x".repeat(129)] {
            assert!(
                said(UserSettings { name: name.into(), ..settings(&[], &[]) }).contains("name")
            );
        }
        let bare = UserSettings { password_hash: Secret::new("hunter2"), ..settings(&[], &[]) };
        let words = said(bare);
        assert!(words.contains("mainstay user hash") && !words.contains("hunter2"), "{words}");
        let twice = Settings { users: vec![settings(&[], &[]); 2], ..Settings::default() };
        assert!(Accounts::new(&twice).err().unwrap().message().contains("twice"));
    }

    #[test]
    fn a_user_is_known_by_the_password_and_remembered_only_when_it_was_right() {
        let users = vec![settings(&["all"], &[""])];
        let accounts = Accounts::new(&Settings { users, ..Settings::default() }).unwrap();
        let right = Secret::new("pw");
        let wrong = Secret::new("no");
        assert!(
            accounts.verify("app", &wrong).is_none() && accounts.recall("app", &wrong).is_none()
        );
        assert!(accounts.verify("nobody", &right).is_none(), "the decoy's result is not looked at");
        assert!(accounts.recall("app", &right).is_none());
        assert_eq!(accounts.verify("app", &right).unwrap().name(), "app");
        assert!(
            accounts.recall("app", &right).is_some() && accounts.recall("app", &wrong).is_none()
        );
        assert!(accounts.verify("app", &wrong).is_none());
    }

    #[test]
    fn an_unknown_user_costs_as_much_as_a_wrong_password() {
        let cheap = Secret::new("$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo");
        let cheap =
            UserSettings { name: "cheap".into(), password_hash: cheap, ..settings(&[], &[]) };
        let users = vec![cheap, settings(&["all"], &[""])];
        let accounts = Accounts::new(&Settings { users, ..Settings::default() }).unwrap();
        let work = |name: &str| accounts.looked_at(name).unwrap().hash.work;
        assert!(work("nobody") == work("app") && work("app") > work("cheap"));
        for (count, name) in (1..).zip(["app", "nobody", "", "cheap"]) {
            assert!(accounts.verify(name, &Secret::new("wrong")).is_none());
            assert_eq!(accounts.verifications(), count, "{name}");
        }
        accounts.verify("app", &Secret::new("pw")).unwrap();
        accounts.verify("app", &Secret::new("pw")).unwrap();
        assert_eq!(accounts.verifications(), 5, "what is remembered is not verified again");
    }
}
