//! What the files hold, and the configuration made of it.

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

/// Whoever is neither the owner nor in the group may read.
const READABLE_BY_OTHERS: u32 = 0o004;

static BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
static NEWEST: &[&SupportedProtocolVersion] = &[&version::TLS13];

/// A file as it was read.
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

/// What the files held when they were read: equal means that nothing is new.
#[derive(PartialEq, Eq)]
pub(super) struct Material {
    certificate: Piece,
    key: Piece,
    client_ca: Option<Piece>,
}

impl Material {
    /// Reads the files.
    pub fn read(files: &Files<'_>) -> Result<Material> {
        Ok(Material {
            certificate: Piece::read(files.certificate)?,
            key: Piece::read(files.key)?,
            client_ca: files.client_ca.map(Piece::read).transpose()?,
        })
    }

    /// The configuration of a server. A key that is not that of the certificate is refused.
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

    /// Who looks at the certificates of clients; without authorities nobody does.
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

    /// A key that everybody on the machine can read is no secret.
    fn warn_of_readers(&self) {
        let path = &self.key.path;
        let mode = std::fs::metadata(path).map(|metadata| metadata.permissions().mode());
        if mode.is_ok_and(|mode| mode & READABLE_BY_OTHERS != 0) {
            let path = path.display();
            tracing::warn!("everybody on this machine can read the key {path}: chmod 600 {path}");
        }
    }
}
