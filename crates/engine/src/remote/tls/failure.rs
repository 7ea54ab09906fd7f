//! What is said when TLS fails, and what can be done about it.

use mainstay_model::{Code, Error};
use rustls::AlertDescription as Alert;
use std::io;

/// What can be done, in the words of whoever asked.
#[derive(Clone, Copy, Debug)]
pub struct TlsAdvice {
    /// Nobody who is believed vouches for the server.
    pub authority: &'static str,
    /// The server wants a certificate that it accepts.
    pub certificate: &'static str,
    /// What came is no TLS, or not one that both ends know.
    pub plain: &'static str,
}

/// Whether it was TLS that failed, and not the socket below or what is said inside.
pub fn is_about_tls(error: &io::Error) -> bool {
    cause(error).is_some()
}

fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Why there is no TLS with a server.
pub fn refused(address: &str, error: &io::Error, advice: &TlsAdvice) -> Error {
    let (code, what_to_do) = match cause(error) {
        Some(rustls::Error::InvalidCertificate(_)) => (Code::InvalidOption, advice.authority),
        Some(rustls::Error::AlertReceived(alert)) if is_about_us(*alert) => {
            (Code::Unauthenticated, advice.certificate)
        }
        Some(_) => (Code::Unsupported, advice.plain),
        // The socket failed below: the next one may not.
        None => (Code::Io, advice.plain),
    };
    Error::new(code, format!("no TLS with {address} ({error}): {what_to_do}"))
}

/// Whether the server does not accept who we are.
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
