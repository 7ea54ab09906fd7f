//! Settings of TLS: the certificate files, and the front ends that use TLS.

use crate::config::settings::settings;
use mainstay::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

settings! {
    /// What TLS is set up with; without a certificate there is none.
    pub struct Settings {
        /// The server's certificate in PEM, and behind it those between it and the authority; "none"
        /// without TLS.
        pub certificate: Option<PathBuf> = None;
        /// The private key of the certificate, in PEM.
        pub key: Option<PathBuf> = None;
        /// The authorities of clients, in PEM: with them, every client has to show a certificate.
        pub client_ca: Option<PathBuf> = None;
        /// The oldest version that is spoken: "1.2" or "1.3".
        pub minimum_version: Version = Version::Tls12;
        /// Whether the face for Redis clients speaks TLS.
        pub resp: bool = true;
        /// Whether the HTTP face speaks TLS.
        pub http: bool = true;
        /// How long a connection may take until it can be talked on.
        pub handshake_limit_ms: u64 = 10_000, 1..=86_400_000;
        /// How often the files are looked at for newer ones.
        pub look_interval_ms: u64 = 60_000, 1..=86_400_000;
    }
}

/// The oldest version of TLS that clients may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// TLS 1.2, for older clients.
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}

pub(super) struct Files<'a> {
    pub certificate: &'a Path,
    pub key: &'a Path,
    pub client_ca: Option<&'a Path>,
}

impl Settings {
    /// Checks that certificate and key are given together.
    pub fn check(&self) -> Result<()> {
        self.files().map(|_| ())
    }

    /// Returns the files. Certificate and key have to be given together.
    pub(super) fn files(&self) -> Result<Option<Files<'_>>> {
        let client_ca = self.client_ca.as_deref();
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Ok(Some(Files { certificate, key, client_ca })),
            (None, None) if client_ca.is_none() => Ok(None),
            (Some(_), None) => Err(incomplete("its private key: --tls-key FILE, or tls.key")),
            _ => Err(incomplete("a certificate: --tls-cert FILE, or tls.certificate")),
        }
    }
}

fn incomplete(missing: &str) -> Error {
    Error::new(Code::InvalidOption, format!("TLS needs {missing}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_the_configuration_file() {
        let text = "certificate = 'c.pem'\nkey = 'k.pem'\nminimum_version = '1.3'\nhttp = false";
        let settings: Settings = toml::from_str(text).unwrap();
        assert_eq!(settings.minimum_version, Version::Tls13);
        assert!(settings.resp && !settings.http);
        assert!(settings.files().unwrap().is_some());
        assert!(toml::from_str::<Settings>("certificat = 'c.pem'").is_err());
        assert!(toml::from_str::<Settings>("minimum_version = '1.1'").is_err());
    }

    #[test]
    fn half_of_a_pair_is_told() {
        let file = || Some(PathBuf::from("f"));
        let said = |settings: Settings| settings.files().err().map(|error| error.to_string());
        let cases = [
            (Settings { certificate: file(), ..Settings::default() }, "--tls-key"),
            (Settings { key: file(), ..Settings::default() }, "--tls-cert"),
            (Settings { client_ca: file(), ..Settings::default() }, "--tls-cert"),
        ];
        for (settings, flag) in cases {
            assert!(said(settings).unwrap().contains(flag), "{flag}");
        }
        assert!(said(Settings::default()).is_none());
    }
}
