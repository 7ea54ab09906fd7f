//! Servers with TLS, and clients that see every byte inside it.

use crate::papers::{Authority, Pair};
use crate::support::{Client, Ours, connect};
use mainstay::Durability;
use mainstay_server::resp;
use mainstay_server::tls::{Settings, Tls, pem, provider};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, StreamOwned, SupportedProtocolVersion};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Poll interval, and the number of polls.
const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: usize = 3_000;

pub type Secure = StreamOwned<ClientConnection, TcpStream>;

/// Creates the TLS configuration of a server.
pub fn tls(settings: &Settings) -> Tls {
    Tls::open(settings).unwrap().unwrap()
}

/// Starts the RESP front end with TLS, in this process.
pub fn resp_with(settings: &Settings) -> Ours {
    let face = resp::Settings { durability: Durability::Interval, ..resp::Settings::default() };
    Ours::with_tls(face, Some(tls(settings)))
}

/// Creates an authority, and starts the RESP front end with a certificate signed by it.
pub fn resp_face() -> (Authority, Ours) {
    let authority = Authority::new();
    let ours = resp_with(&authority.sign("server").settings());
    (authority, ours)
}

/// The TLS configuration of a client.
pub struct Caller {
    pub config: Arc<ClientConfig>,
}

impl Caller {
    /// Creates a client that trusts an authority.
    pub fn of(authority: &Authority) -> Caller {
        Caller::with(authority, rustls::ALL_VERSIONS, None)
    }

    /// Creates a client with these TLS versions, and optionally a certificate.
    pub fn with(
        authority: &Authority,
        versions: &[&'static SupportedProtocolVersion],
        shown: Option<&Pair>,
    ) -> Caller {
        let path = authority.path();
        let roots = pem::authorities(&path, &pem::read(&path).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match shown {
            None => builder.with_no_client_auth(),
            Some(Pair { certificate, key }) => {
                let chain = certificates(certificate);
                let key = pem::key(key, &pem::read(key).unwrap()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        Caller { config: Arc::new(config) }
    }

    /// Connects without sending anything.
    pub fn connect(&self, address: SocketAddr) -> Secure {
        let name = ServerName::try_from("localhost").unwrap();
        let client = ClientConnection::new(self.config.clone(), name).unwrap();
        StreamOwned::new(client, connect(address))
    }

    /// Connects a client to the RESP front end.
    pub fn client(&self, address: SocketAddr) -> Client<Secure> {
        Client::over(self.connect(address))
    }

    /// Connects. Returns the certificate of the server and the connection.
    pub fn meet(&self, address: SocketAddr) -> (CertificateDer<'static>, Client<Secure>) {
        let mut client = self.client(address);
        assert_eq!(client.line("PING"), r"+PONG\r\n");
        let shown = client.stream().conn.peer_certificates().unwrap()[0].clone().into_owned();
        (shown, client)
    }

    /// Returns the error with which the server rejects the connection.
    pub fn refusal(&self, address: SocketAddr) -> io::Error {
        use std::io::{Read, Write};
        let mut stream = self.connect(address);
        let asked = stream.write_all(b"PING\r\n").and_then(|()| stream.read(&mut [0; 64]));
        match asked {
            Err(error) => error,
            Ok(0) => io::ErrorKind::UnexpectedEof.into(),
            Ok(count) => panic!("the server said {count} bytes"),
        }
    }
}

/// Returns the certificates of a file.
pub fn certificates(path: &std::path::Path) -> Vec<CertificateDer<'static>> {
    pem::certificates(path, &pem::read(path).unwrap()).unwrap()
}

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("still waiting for {what}");
}

/// Returns the certificate of a pair.
pub fn certificate_of(pair: &Pair) -> CertificateDer<'static> {
    certificates(&pair.certificate).remove(0)
}
