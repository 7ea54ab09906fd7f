//! TLS configuration for HTTP, from the same arguments as for RESP.

use super::args::TlsArgs;
use super::failure::{Failure, Result};
use mainstay::remote::tls::{pem, provider};
use std::path::Path;
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig, TlsProvider};

/// The trusted certificates and the client certificate.
pub fn config(tls: &TlsArgs) -> Result<TlsConfig> {
    let config = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider())
        .disable_verification(tls.insecure)
        .root_certs(trusted_roots(tls)?)
        .client_cert(client_certificate(tls)?);
    Ok(config.build())
}

fn trusted_roots(tls: &TlsArgs) -> Result<RootCerts> {
    let certificates = match &tls.cacert {
        Some(path) => certificates(path)?,
        None => {
            let machine = pem::machine_certificates();
            machine.iter().map(|der| Certificate::from_der(der).to_owned()).collect()
        }
    };
    Ok(RootCerts::new_with_certs(&certificates))
}

fn client_certificate(tls: &TlsArgs) -> Result<Option<ClientCert>> {
    let (Some(cert), Some(key)) = (&tls.cert, &tls.key) else { return Ok(None) };
    let private = PrivateKey::from_pem(&pem::read(key)?)
        .map_err(|error| Failure::error(format!("{} holds no key: {error}", key.display())))?;
    Ok(Some(ClientCert::new_with_certs(&certificates(cert)?, private)))
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>> {
    let found = pem::certificates(path, &pem::read(path)?)?;
    Ok(found.iter().map(|der| Certificate::from_der(der).to_owned()).collect())
}
