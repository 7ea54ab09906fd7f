//! Reads the TLS files and builds the rustls configuration from them.

use super::settings::{Files, Version};
use super::{pem, provider};
use mainstay::{Error, Result};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use std::fmt::Display;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The mode bit that lets other users of the machine read a file.
const READABLE_BY_OTHERS: u32 = 0o004;

static BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
static NEWEST: &[&SupportedProtocolVersion] = &[&version::TLS13];

/// A file and its contents.
#[derive(PartialEq, Eq)]
struct Piece {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Piece {
    fn read(path: &Path) -> Result<Piece> {
        Ok(Piece { path: path.to_owned(), bytes: pem::read(path)? })
    }
}

/// The contents of all files. Two equal values mean that no file has changed.
#[derive(PartialEq, Eq)]
pub(super) struct Material {
    certificate: Piece,
    key: Piece,
    client_ca: Option<Piece>,
}

impl Material {
    pub fn read(files: &Files<'_>) -> Result<Material> {
        Ok(Material {
            certificate: Piece::read(files.certificate)?,
            key: Piece::read(files.key)?,
            client_ca: files.client_ca.map(Piece::read).transpose()?,
        })
    }

    /// Builds the configuration of the server. Fails if the key does not belong to the certificate.
    pub fn config(&self, minimum: Version) -> Result<Arc<ServerConfig>> {
        self.warn_of_readers();
        let chain = pem::certificates(&self.certificate.path, &self.certificate.bytes)?;
        let key = pem::key(&self.key.path, &self.key.bytes)?;
        let builder = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(match minimum {
                Version::Tls12 => BOTH,
                Version::Tls13 => NEWEST,
            })
            .map_err(|error| self.refused(&error))?;
        let config = builder
            .with_client_cert_verifier(self.verifier()?)
            .with_single_cert(chain, key)
            .map_err(|error| self.refused(&error))?;
        Ok(Arc::new(config))
    }

    /// Returns the verifier for client certificates. Without authorities, clients need no certificate.
    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>> {
        let Some(piece) = &self.client_ca else {
            return Ok(WebPkiClientVerifier::no_client_auth());
        };
        let roots = Arc::new(pem::authorities(&piece.path, &piece.bytes)?);
        WebPkiClientVerifier::builder_with_provider(roots, provider())
            .build()
            .map_err(|error| self.refused(&error))
    }

    fn refused(&self, why: &dyn Display) -> Error {
        pem::apart(&self.certificate.path, &self.key.path, why)
    }

    /// Warns if every user of the machine can read the key.
    fn warn_of_readers(&self) {
        let path = &self.key.path;
        let mode = std::fs::metadata(path).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & READABLE_BY_OTHERS != 0) {
            let path = path.display();
            tracing::warn!("everybody on this machine can read the key {path}: chmod 600 {path}");
        }
    }
}
