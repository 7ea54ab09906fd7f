//! Settings of TLS: which files, for which faces.

use mainstay::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What TLS is set up with. Without a certificate there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The server's certificate in PEM, and behind it those between it and the authority.
    pub certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    pub key: Option<PathBuf>,
    /// The authorities of clients, in PEM: with them, every client has to show a certificate.
    pub client_ca: Option<PathBuf>,
    /// The oldest version that is spoken.
    pub minimum_version: Version,
    /// Whether the face for Redis clients speaks TLS.
    pub resp: bool,
    /// Whether the HTTP face speaks TLS.
    pub http: bool,
    /// How long a connection may take until it can be talked on.
    pub handshake_limit_ms: u64,
    /// How often the files are looked at for newer ones.
    pub look_interval_ms: u64,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// TLS 1.2, which older clients need.
    #[default]
    #[serde(rename = "1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    Tls13,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            certificate: None,
            key: None,
            client_ca: None,
            minimum_version: Version::default(),
            resp: true,
            http: true,
            handshake_limit_ms: 10_000,
            look_interval_ms: 60_000,
        }
    }
}

/// The files that are read.
pub(super) struct Files<'a> {
    pub certificate: &'a Path,
    pub key: &'a Path,
    pub client_ca: Option<&'a Path>,
}

impl Settings {
    /// The files, which come together or not at all.
    pub(super) fn files(&self) -> Result<Option<Files<'_>>> {
        let client_ca = self.client_ca.as_deref();
        match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Ok(Some(Files { certificate, key, client_ca })),
            (None, None) if client_ca.is_none() => Ok(None),
            (Some(_), None) => Err(incomplete("its private key: --tls-key FILE")),
            _ => Err(incomplete("a certificate: --tls-cert FILE")),
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
