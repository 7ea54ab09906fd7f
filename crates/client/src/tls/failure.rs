//! TLS errors, with advice for the user.

use mainstay_model::{Code, Error};
use rustls::AlertDescription as Alert;
use std::io;

/// Advice for each kind of TLS failure, in the terms of the calling API.
#[derive(Clone, Copy, Debug)]
pub struct TlsAdvice {
    /// The server's certificate is not signed by a trusted authority.
    pub authority: &'static str,
    /// The server demands a client certificate that it accepts.
    pub certificate: &'static str,
    /// The peer does not speak TLS, or shares no TLS version or cipher with this client.
    pub plain: &'static str,
}

/// Returns whether TLS itself failed, and not the socket below it or the protocol inside it.
pub fn is_about_tls(error: &io::Error) -> bool {
    cause(error).is_some()
}

fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// The error for a TLS connection that was not established.
pub fn refused(address: &str, error: &io::Error, advice: &TlsAdvice) -> Error {
    let (code, what_to_do) = match cause(error) {
        Some(rustls::Error::InvalidCertificate(_)) => (Code::InvalidOption, advice.authority),
        Some(rustls::Error::AlertReceived(alert)) if is_about_us(*alert) => {
            (Code::Unauthenticated, advice.certificate)
        }
        Some(_) => (Code::Unsupported, advice.plain),
        // The socket failed, so a later attempt may succeed.
        None => (Code::Io, advice.plain),
    };
    Error::new(code, format!("no TLS with {address} ({error}): {what_to_do}"))
}

/// Returns whether the server rejected the client's certificate.
fn is_about_us(alert: Alert) -> bool {
    matches!(
        alert,
        Alert::CertificateRequired
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::DecryptError
    )
}
