//! Password hashing and verification with argon2id.

use super::Secret;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Argon2, Params};
use mainstay::{Code, Error, Result};

/// Limits for the parameters of a hash, because verifying it must not exhaust the server.
const MEMORY_LIMIT_KIB: u32 = 1 << 20;
const PASSES_LIMIT: u32 = 64;

/// Hashes a password, in the format of the settings.
pub fn hash(password: &Secret) -> Result<String> {
    let hashed: std::result::Result<PasswordHash, _> =
        Argon2::default().hash_password(password.expose());
    let failed = |error| Error::new(Code::Io, format!("the password could not be hashed: {error}"));
    hashed.map(|hash| hash.to_string()).map_err(failed)
}

/// A parsed password hash that can be verified.
pub(super) struct Hash {
    hash: PasswordHash,
    /// The cost of a verification: memory times passes.
    pub work: u64,
}

impl Hash {
    /// Parses a PHC string. The error says what is wrong without showing the string.
    pub fn read(text: &Secret) -> std::result::Result<Hash, &'static str> {
        let text = std::str::from_utf8(text.expose()).map_err(|_| "it is not text")?;
        let hash = PasswordHash::new(text).map_err(|_| "it is no PHC string")?;
        if hash.algorithm.as_str() != "argon2id" {
            return Err("it is not of argon2id");
        }
        if hash.salt.is_none() || hash.hash.is_none() {
            return Err("its salt or its hash is missing");
        }
        let params = Params::try_from(&hash).map_err(|_| "its parameters are wrong")?;
        if params.m_cost() > MEMORY_LIMIT_KIB || params.t_cost() > PASSES_LIMIT {
            return Err("it asks for more than 1 GiB of memory or 64 passes");
        }
        let work = u64::from(params.m_cost()) * u64::from(params.t_cost());
        Ok(Hash { hash, work })
    }

    /// Returns whether it is the hash of this password. Slow on purpose.
    pub fn fits(&self, password: &Secret) -> bool {
        Argon2::default().verify_password(password.expose(), &self.hash).is_ok()
    }
}

/// Returns whether a text is a usable hash. For fuzzers.
#[cfg(any(test, fuzzing))]
pub(crate) fn is_usable_hash(text: &Secret) -> bool {
    Hash::read(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_fits_its_own_hash_and_no_other() {
        let text = hash(&Secret::new("hunter2")).unwrap();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        assert_ne!(text, hash(&Secret::new("hunter2")).unwrap(), "salts differ");
        let hash = Hash::read(&Secret::new(text)).unwrap();
        assert!(hash.fits(&Secret::new("hunter2")));
        for wrong in ["hunter3", "", "hunter2 "] {
            assert!(!hash.fits(&Secret::new(wrong)));
        }
        assert_eq!(hash.work, 19456 * 2);
    }

    #[test]
    fn what_is_no_hash_to_use_is_refused_when_it_is_read() {
        let cases = [
            ("", "it is no PHC string"),
            ("hunter2", "it is no PHC string"),
            ("$argon2i$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo", "it is not of argon2id"),
            ("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ", "its salt or its hash is missing"),
            (
                "$argon2id$v=19$m=4194304,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo",
                "it asks for more than 1 GiB of memory or 64 passes",
            ),
        ];
        for (text, wrong) in cases {
            assert_eq!(Hash::read(&Secret::new(text)).err(), Some(wrong), "{text}");
        }
    }
}
