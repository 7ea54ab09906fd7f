//! Builds the rustls client configuration from the configured files.

use super::{Tls, TlsAdvice, pem, provider, trust};
use mainstay_model::{Code, Error, Result};
use rustls::client::WantsClientCert;
use rustls::{ClientConfig, ConfigBuilder, WantsVerifier};
use std::path::Path;
use std::sync::Arc;

impl Tls {
    /// Builds the rustls configuration. Reads the files again on each call.
    pub(super) fn config(&self, advice: &TlsAdvice) -> Result<Arc<ClientConfig>> {
        let builder = ClientConfig::builder_with_provider(provider());
        let builder = builder.with_safe_default_protocol_versions().map_err(|error| {
            Error::new(Code::InvalidOption, format!("TLS cannot be set up: {error}"))
        })?;
        let builder = self.believing(builder, advice)?;
        Ok(Arc::new(match &self.shown {
            Some((certificate, key)) => showing(builder, certificate, key)?,
            None => builder.with_no_client_auth(),
        }))
    }

    fn believing(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsVerifier>,
        advice: &TlsAdvice,
    ) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>> {
        if self.insecure {
            let anyone = Arc::new(trust::AcceptAnyCertificate::new());
            return Ok(builder.dangerous().with_custom_certificate_verifier(anyone));
        }
        let roots = match &self.authorities {
            Some(path) => pem::authorities(path, &pem::read(path)?)?,
            None => pem::machine_authorities(advice.authority)?,
        };
        Ok(builder.with_root_certificates(roots))
    }
}

fn showing(
    builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    certificate: &Path,
    key: &Path,
) -> Result<ClientConfig> {
    let chain = pem::certificates(certificate, &pem::read(certificate)?)?;
    let private = pem::key(key, &pem::read(key)?)?;
    builder
        .with_client_auth_cert(chain, private)
        .map_err(|error| pem::apart(certificate, key, &error))
}
