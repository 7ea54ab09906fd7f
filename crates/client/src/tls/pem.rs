//! Reads certificates and keys from PEM files.

use mainstay_model::{Code, Error, Result};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fmt;
use std::path::Path;

pub fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| {
        Error::new(Code::Io, format!("{} could not be read: {error}", path.display()))
    })
}

/// All certificates of a file. Fails if it has none.
pub fn certificates(path: &Path, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => {
            Err(wrong(path, "holds no certificate: PEM is wanted, `-----BEGIN CERTIFICATE-----`"))
        }
        Err(error) => Err(wrong(path, &format!("holds no certificates that can be read: {error}"))),
    }
}

/// The first private key of a file.
pub fn key(path: &Path, bytes: &[u8]) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| {
        let message =
            "holds no private key: PEM without a password is wanted, `-----BEGIN PRIVATE KEY-----`";
        wrong(path, &format!("{message} ({error})"))
    })
}

/// The certificate authorities of a file.
pub fn authorities(path: &Path, bytes: &[u8]) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, bytes)? {
        roots.add(certificate).map_err(|error| {
            wrong(path, &format!("holds a certificate that cannot be trusted in: {error}"))
        })?;
    }
    Ok(roots)
}

/// The certificate authorities that this machine trusts.
pub fn machine_certificates() -> Vec<CertificateDer<'static>> {
    // Unreadable ones are skipped, because the others may suffice.
    rustls_native_certs::load_native_certs().certs
}

/// The certificate authorities that this machine trusts. Fails if it has none; the error then gives the
/// advice `what_to_do`.
pub(super) fn machine_authorities(what_to_do: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    // Certificates of an unsupported kind are skipped.
    roots.add_parsable_certificates(machine_certificates());
    if roots.is_empty() {
        let message = format!("this machine names no authorities to believe: {what_to_do}");
        Err(Error::new(Code::InvalidOption, message))
    } else {
        Ok(roots)
    }
}

/// The error for a certificate and a key that do not match.
pub fn apart(certificate: &Path, key: &Path, why: &dyn fmt::Display) -> Error {
    let certificate = certificate.display();
    let key = key.display();
    let message = format!("{certificate} and {key} cannot be used together for TLS: {why}");
    Error::new(Code::InvalidOption, message)
}

fn wrong(path: &Path, what: &str) -> Error {
    Error::new(Code::InvalidOption, format!("{} {what}", path.display()))
}
