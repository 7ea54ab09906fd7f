//! Servers and a client for the tests of the RESP front end.
#![allow(dead_code, reason = "each test file uses its own part")]

pub mod tools;

use mainstay::{Database, Durability, Options};
use mainstay_server::jobs::Desk;
use mainstay_server::memory::{self, MemoryBudget};
use mainstay_server::resp::{self, Handle, Settings, Shared};
use mainstay_server::security::Security;
use mainstay_server::tls::Tls;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than any reply takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A Mainstay server in this process.
pub struct Ours {
    pub address: SocketAddr,
    pub db: Database,
    handle: Option<Handle>,
    _directory: TempDir,
}

impl Ours {
    pub fn start() -> Ours {
        Ours::with(Settings { durability: Durability::Interval, ..Settings::default() })
    }

    pub fn with(settings: Settings) -> Ours {
        Ours::with_tls(settings, None)
    }

    pub fn with_tls(settings: Settings, tls: Option<Tls>) -> Ours {
        Ours::on(TcpListener::bind("127.0.0.1:0").unwrap(), settings, tls)
    }

    /// Starts a server without a periodic sweep, so that it writes nothing by itself.
    pub fn unswept() -> Ours {
        let settings = Settings { durability: Durability::Interval, ..Settings::default() };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Ours::open(listener, settings, None, Options::new().sweep_interval(None))
    }

    pub fn on(listener: TcpListener, settings: Settings, tls: Option<Tls>) -> Ours {
        Ours::open(listener, settings, tls, Options::new())
    }

    /// Starts a server with limits for the memory of its clients.
    pub fn budgeted(settings: Settings, options: Options, memory: memory::Settings) -> Ours {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        Ours::served(listener, settings, None, options, MemoryBudget::new(memory))
    }

    fn open(listener: TcpListener, settings: Settings, tls: Option<Tls>, options: Options) -> Ours {
        Ours::served(listener, settings, tls, options, Arc::default())
    }

    fn served(
        listener: TcpListener,
        settings: Settings,
        tls: Option<Tls>,
        options: Options,
        memory: Arc<MemoryBudget>,
    ) -> Ours {
        let directory = tempfile::tempdir().unwrap();
        let options = options.durability(settings.durability);
        let db = options.open(directory.path().join("data")).unwrap();
        let address = listener.local_addr().unwrap();
        let jobs = Desk::plain(db.clone());
        let shared =
            Shared::with_memory_budget(db.clone(), settings, Security::open(), jobs, memory);
        let handle = resp::serve_with(listener, tls, &shared).unwrap();
        Ours { address, db, handle: Some(handle), _directory: directory }
    }

    pub fn client(&self) -> Client {
        Client::to(self.address)
    }

    /// Drains and stops the server.
    pub fn stop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.stop();
        }
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        self.stop();
        let _ = self.db.close();
    }
}

/// Serves a database at this address, which another server may have used before.
pub fn serve_at(address: SocketAddr, db: &Database) -> Handle {
    let listener = TcpListener::bind(address).unwrap();
    resp::serve(listener, &Shared::new(db.clone(), Settings::default())).unwrap()
}

/// A real Redis server.
pub struct Redis {
    pub address: SocketAddr,
    child: Child,
    _directory: TempDir,
}

impl Redis {
    pub fn start() -> Redis {
        let directory = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--save", "", "--appendonly", "no"])
            .args(["--bind", "127.0.0.1", "--dir"])
            .arg(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server is installed by ./test");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        wait_for(address);
        Redis { address, child, _directory: directory }
    }

    pub fn client(&self) -> Client {
        Client::to(self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a server listens.
pub fn wait_for(address: SocketAddr) {
    for _ in 0..600 {
        if TcpStream::connect(address).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nobody listens at {address}");
}

/// Returns whether the error is a timeout without any data.
fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A client that sees every byte.
pub struct Client<S = TcpStream> {
    stream: BufReader<S>,
}

/// Connects a socket whose read timeout only detects hangs.
pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        Client::over(connect(address))
    }

    /// Waits for the first byte of a reply, without reading it.
    pub fn peek(&mut self) {
        assert!(self.stream.get_ref().peek(&mut [0]).unwrap() > 0);
    }

    /// Sends as many bytes as the peer takes at once. Returns whether that was all.
    pub fn offer(&mut self, bytes: &[u8]) -> bool {
        let stream = self.stream.get_mut();
        stream.set_nonblocking(true).unwrap();
        let taken = stream.write_all(bytes).is_ok();
        stream.set_nonblocking(false).unwrap();
        taken
    }

    /// Sends on a separate thread while `read` reads replies. A server that waits until its replies are
    /// read does not read requests, so a client that sends more than the socket buffers hold has to read
    /// meanwhile.
    pub fn send_and_read<T>(&mut self, bytes: &[u8], read: impl FnOnce(&mut Client) -> T) -> T {
        let mut sending = self.stream.get_ref().try_clone().unwrap();
        sending.set_write_timeout(Some(PATIENCE)).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || sending.write_all(bytes).unwrap());
            read(self)
        })
    }
}

impl<S: Read + Write> Client<S> {
    /// Creates a client over a stream.
    pub fn over(stream: S) -> Client<S> {
        Client { stream: BufReader::new(stream) }
    }

    /// Returns the stream.
    pub fn stream(&mut self) -> &mut S {
        self.stream.get_mut()
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    pub fn send(&mut self, words: &[impl AsRef<[u8]>]) {
        self.send_bytes(&encode(words));
    }

    /// Reads one byte.
    pub fn byte(&mut self) -> u8 {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).unwrap();
        byte[0]
    }

    /// Reads one reply. Returns its bytes.
    pub fn receive(&mut self) -> String {
        let mut reply = Vec::new();
        self.read_one(&mut reply).unwrap();
        reply.escape_ascii().to_string()
    }

    /// Reads one reply. Returns its bytes, or `None` if the connection ends first.
    pub fn receive_or_end(&mut self) -> Option<String> {
        let mut reply = Vec::new();
        let received = self.read_one(&mut reply);
        assert!(!received.as_ref().is_err_and(is_silence), "neither a reply nor an end");
        received.ok()?;
        reply.ends_with(b"\n").then(|| reply.escape_ascii().to_string())
    }

    fn read_one(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let start = out.len();
        self.stream.read_until(b'\n', out)?;
        let line = String::from_utf8_lossy(&out[start..]).into_owned();
        let count = || line[1..].trim_end().parse::<i64>().unwrap();
        match line.as_bytes().first() {
            Some(b'$') if count() >= 0 => {
                let mut bulk = vec![0; usize::try_from(count()).unwrap() + 2];
                self.stream.read_exact(&mut bulk)?;
                out.extend_from_slice(&bulk);
                Ok(())
            }
            Some(b'*' | b'>') => (0..count()).try_for_each(|_| self.read_one(out)),
            Some(b'%') => (0..2 * count()).try_for_each(|_| self.read_one(out)),
            _ => Ok(()),
        }
    }

    /// Returns whether the peer has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(count) => count == 0,
            Err(error) => !is_silence(&error),
        }
    }

    /// Returns whether the connection ends before this many replies.
    pub fn ends_early(&mut self, replies: usize) -> bool {
        (0..replies).any(|_| self.receive_or_end().is_none())
    }

    /// Sends bytes. Returns false if the connection is closed.
    pub fn send_or_end(&mut self, bytes: &[u8]) -> bool {
        self.stream.get_mut().write_all(bytes).is_ok()
    }

    /// Sends a request and receives the reply.
    pub fn call(&mut self, words: &[impl AsRef<[u8]>]) -> String {
        self.send(words);
        self.receive()
    }

    /// Sends a typed line and receives the reply.
    pub fn line(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
        self.call(&words)
    }
}

pub fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// Returns whether a program is installed.
pub fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|path| Path::new(&path).join(program).exists())
}
