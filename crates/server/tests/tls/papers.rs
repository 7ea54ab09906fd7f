//! Certificates for the tests: an authority and certificates signed by it.

use mainstay_server::tls::Settings;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// An authority, with a directory for its certificates.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    directory: TempDir,
}

/// The files of a certificate and its key.
#[derive(Clone)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let authority = Authority { issuer, directory: tempfile::tempdir().unwrap() };
        std::fs::write(authority.path(), authority.issuer.pem()).unwrap();
        authority
    }

    /// Returns the path of its certificate.
    pub fn path(&self) -> PathBuf {
        self.file("authority.pem")
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Signs a certificate for this machine, in files with this name.
    pub fn sign(&self, name: &str) -> Pair {
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let pair = Pair {
            certificate: self.file(&format!("{name}.pem")),
            key: self.file(&format!("{name}.key")),
        };
        std::fs::write(&pair.certificate, certificate.pem()).unwrap();
        std::fs::write(&pair.key, key.serialize_pem()).unwrap();
        set_mode(&pair.key, 0o600);
        pair
    }
}

/// Sets the mode of a file.
pub fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

impl Pair {
    /// Returns settings of a server with this certificate.
    pub fn settings(&self) -> Settings {
        let Pair { certificate, key } = self.clone();
        Settings { certificate: Some(certificate), key: Some(key), ..Settings::default() }
    }

    /// Replaces the files by those of another pair.
    pub fn become_like(&self, other: &Pair) {
        std::fs::copy(&other.certificate, &self.certificate).unwrap();
        std::fs::copy(&other.key, &self.key).unwrap();
    }
}
