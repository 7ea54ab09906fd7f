//! Test fixture: a server on its own port, and a client whose requests take one line.

use mainstay::{Clock, Database, Options, SystemClock};
use mainstay_server::http::{Http, Serving, Settings, Stop, serve};
use mainstay_server::jobs::Desk;
use mainstay_server::memory::{self, MemoryBudget};
use mainstay_server::security::Security;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{HeaderMap, Request};

/// The timeout for a hanging test. Nothing else is measured with it.
pub const HANG: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let clock = SystemClock::new();
    while !is_so() {
        assert!(Duration::from_micros(clock.monotonic_us()) < HANG, "still waiting for {what}");
        std::thread::yield_now();
    }
}

pub struct World {
    pub db: Database,
    pub app: Http,
    pub address: SocketAddr,
    pub stop: Stop,
    serving: Option<Serving>,
    agent: Agent,
}

/// A response.
#[derive(Debug)]
pub struct Said {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
}

impl Said {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The status and the error code of a refusal.
    pub fn code(&self) -> (u16, String) {
        let body = self.json();
        let error = &body["error"];
        assert!(error["kind"].is_string() && error["message"].is_string(), "{body}");
        (self.status, error["code"].as_str().unwrap().to_owned())
    }

    /// The JSON of a successful response.
    pub fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{} {}", self.status, self.text);
        self.json()
    }
}

impl World {
    pub fn new() -> World {
        World::of(Options::new().memory().unwrap(), Settings::default())
    }

    pub fn with(settings: Settings) -> World {
        World::of(Options::new().memory().unwrap(), settings)
    }

    /// A server with limits on client memory.
    pub fn budgeted(settings: Settings, memory: memory::Settings) -> World {
        World::served(Options::new().memory().unwrap(), settings, MemoryBudget::new(memory))
    }

    pub fn of(db: Database, settings: Settings) -> World {
        World::served(db, settings, Arc::default())
    }

    fn served(db: Database, mut settings: Settings, memory: Arc<MemoryBudget>) -> World {
        // A test must not fail because of a small disk, unless it sets the reserve itself.
        if settings.scratch_reserve_bytes == Settings::default().scratch_reserve_bytes {
            settings.scratch_reserve_bytes = 0;
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let jobs = Desk::plain(db.clone());
        let app = Http::budgeted(db.clone(), settings, Security::open(), jobs, memory).unwrap();
        let stop = Stop::new();
        let serving = Some(serve(listener, app.clone(), stop.clone()).unwrap());
        let config =
            Agent::config_builder().http_status_as_error(false).timeout_global(Some(HANG)).build();
        World { db, app, address, stop, serving, agent: config.into() }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Said {
        let mut response = self.send(method, path, headers, body.as_bytes());
        let text = response.body_mut().read_to_string().unwrap();
        Said { status: response.status().as_u16(), headers: response.headers().clone(), text }
    }

    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> ureq::http::Response<ureq::Body> {
        let mut request = Request::builder().method(method).uri(self.url(path));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        match method {
            "PUT" | "POST" | "PATCH" => self.agent.run(request.body(body).unwrap()),
            _ => self.agent.run(request.body(()).unwrap()),
        }
        .unwrap()
    }

    pub fn get(&self, path: &str) -> Said {
        self.ask("GET", path, &[], "")
    }

    pub fn put(&self, path: &str, body: &str) -> Said {
        self.ask("PUT", path, &[], body)
    }

    pub fn post(&self, path: &str, body: &str) -> Said {
        self.ask("POST", path, &[], body)
    }

    pub fn delete(&self, path: &str) -> Said {
        self.ask("DELETE", path, &[], "")
    }

    /// A connection for malformed requests.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(HANG)).unwrap();
        stream
    }

    /// Sends raw bytes, and reads until the server closes the connection.
    pub fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(bytes).unwrap();
        let mut answer = Vec::new();
        // A reset after the answer counts as the end.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    /// Opens a stream of server-sent events.
    pub fn follow(&self, path: &str, headers: &[(&str, &str)]) -> Follower {
        let response = self.send("GET", path, headers, b"");
        assert_eq!(response.status().as_u16(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Follower { lines: BufReader::new(Box::new(response.into_body().into_reader())), id: None }
    }

    /// Waits until the metrics contain this line.
    pub fn wait_for_metric(&self, line: &str) {
        until(line, || self.get("/metrics").text.lines().any(|found| found == line));
    }

    /// Stops the server and waits until it has ended.
    pub fn end(&mut self) {
        self.stop.trigger();
        if let Some(serving) = self.serving.take() {
            serving.wait().unwrap();
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.trigger();
    }
}

/// A client of server-sent events that behaves like a browser.
pub struct Follower {
    lines: BufReader<Box<dyn Read>>,
    /// The last id, which a browser sends when it reconnects.
    pub id: Option<String>,
}

#[derive(Debug, Default, PartialEq)]
pub struct Sent {
    pub id: Option<String>,
    pub event: String,
    pub data: Value,
}

impl Follower {
    /// The next event; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Sent> {
        loop {
            let block = self.block()?;
            if !block.event.is_empty() {
                return Some(block);
            }
        }
    }

    /// The next block, including keep-alives.
    pub fn block(&mut self) -> Option<Sent> {
        let mut sent = Sent::default();
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            let line = line.trim_end();
            match line.split_once(": ") {
                _ if line.is_empty() => break,
                Some(("id", id)) => sent.id = Some(id.to_owned()),
                Some(("event", event)) => sent.event = event.to_owned(),
                Some(("data", data)) => sent.data = serde_json::from_str(data).unwrap(),
                _ => {}
            }
        }
        self.id = sent.id.clone().or(self.id.take());
        Some(sent)
    }
}
