//! A collector of spans: an HTTP listener that records all requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Clone, Debug, Default)]
pub struct Posted {
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Posted {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map_or("", |(_, value)| value)
    }

    /// Returns whether the body contains these bytes.
    pub fn has(&self, bytes: impl AsRef<[u8]>) -> bool {
        let bytes = bytes.as_ref();
        self.body.windows(bytes.len()).any(|window| window == bytes)
    }
}

/// A collector that listens until the test ends.
pub struct Collector {
    pub address: SocketAddr,
    posted: Arc<Mutex<Vec<Posted>>>,
}

impl Collector {
    pub fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let posted: Arc<Mutex<Vec<Posted>>> = Arc::default();
        let all = posted.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let all = all.clone();
                std::thread::spawn(move || while take(&stream, &all).is_some() {});
            }
        });
        Collector { address, posted }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }
}

/// Reads one request. Returns `None` at the end of the connection.
fn take(stream: &TcpStream, all: &Mutex<Vec<Posted>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut posted = Posted { path: line.split(' ').nth(1)?.to_owned(), ..Posted::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        posted.headers.push((name.to_owned(), value.to_owned()));
    }
    posted.body = vec![0; posted.header("content-length").parse().ok()?];
    reader.read_exact(&mut posted.body).ok()?;
    all.lock().unwrap().push(posted);
    let mut stream = stream;
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").ok()
}
