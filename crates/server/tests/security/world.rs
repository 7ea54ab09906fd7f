//! A server with users on both front ends, and clients with one-line requests.

use crate::support::Client;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mainstay::{Database, Options};
use mainstay_server::security::{Secret, Security, Settings, UserSettings, hash};
use mainstay_server::{http, resp};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, LazyLock};
use tempfile::TempDir;

/// The password of all users.
pub const PASSWORD: &str = "correct horse";

/// Hashing is slow, so it is done once.
static HASH: LazyLock<String> = LazyLock::new(|| hash(&Secret::new(PASSWORD)).unwrap());

pub struct World {
    pub db: Database,
    pub resp: SocketAddr,
    pub http: SocketAddr,
    pub directory: TempDir,
    face: Option<resp::Handle>,
    stop: http::Stop,
}

pub fn user(name: &str, allow: &[&str], prefixes: &[&str]) -> UserSettings {
    let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect();
    let allow = texts(allow);
    let prefixes = texts(prefixes);
    let password_hash = Secret::new(HASH.as_str());
    UserSettings { name: name.into(), password_hash, allow, prefixes }
}

/// Returns users of all kinds.
pub fn users() -> Vec<UserSettings> {
    vec![
        user("default", &["all"], &[""]),
        user("app", &["all"], &["app:"]),
        user("reader", &["all:read"], &[""]),
        user("writer", &["cells:write"], &[""]),
        user("keeper", &["records"], &[""]),
        user("nobody", &[], &[]),
    ]
}

pub fn settings() -> Settings {
    Settings { users: users(), ..Settings::default() }
}

impl World {
    pub fn new() -> World {
        World::with(|_| {})
    }

    /// Starts a server with changed settings and an audit file.
    pub fn with(change: impl FnOnce(&mut Settings)) -> World {
        World::limited(|settings, _, _| change(settings))
    }

    /// Does the same with changed settings of the front ends too.
    pub fn limited(
        change: impl FnOnce(&mut Settings, &mut resp::Settings, &mut http::Settings),
    ) -> World {
        let directory = tempfile::tempdir().unwrap();
        let mut settings = settings();
        settings.audit_file = Some(directory.path().join("audit.log"));
        // With one loop, requests are executed in the order of arrival, across connections.
        let mut resp = resp::Settings { loops: 1, ..resp::Settings::default() };
        // A test machine with little disk space is no failure.
        let mut web = http::Settings { scratch_reserve_bytes: 0, ..http::Settings::default() };
        change(&mut settings, &mut resp, &mut web);
        World::serve(&settings, resp, web, directory)
    }

    fn serve(
        settings: &Settings,
        resp_settings: resp::Settings,
        files: http::Settings,
        directory: TempDir,
    ) -> World {
        let security = Security::new(settings).unwrap();
        let db = Options::new().memory().unwrap();
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listen();
        let web = listen();
        let resp = at.local_addr().unwrap();
        let http = web.local_addr().unwrap();
        let shared = resp::Shared::with_security(db.clone(), resp_settings, Arc::clone(&security));
        let face = Some(resp::serve(at, &shared).unwrap());
        let app = http::Http::secured(db.clone(), files, security).unwrap();
        let stop = http::Stop::new();
        drop(http::serve(web, app, stop.clone()).unwrap());
        World { db, resp, http, directory, face, stop }
    }

    /// Opens an unauthenticated connection.
    pub fn stranger(&self) -> Client {
        Client::to(self.resp)
    }

    /// Opens a connection of a user.
    pub fn client(&self, user: &str) -> Client {
        let mut client = self.stranger();
        assert_eq!(client.call(&["AUTH", user, PASSWORD]), r"+OK\r\n");
        client
    }

    /// Returns the lines of the audit log.
    pub fn audit(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.directory.path().join("audit.log")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Sends an HTTP request of a user, or an unauthenticated one. Returns its status and its body.
    pub fn ask(&self, user: Option<&str>, method: &str, path: &str, body: &str) -> (u16, String) {
        let header = user.map(|user| basic(user, PASSWORD));
        let (status, _, text) = self.ask_as(header.as_deref(), method, path, &[], body.as_bytes());
        (status, String::from_utf8_lossy(&text).into_owned())
    }

    pub fn ask_as(
        &self,
        authorization: Option<&str>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, ureq::http::HeaderMap, Vec<u8>) {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let uri = format!("http://{}{path}", self.http);
        let mut request = ureq::http::Request::builder().method(method).uri(uri);
        for (name, value) in authorization.map(|it| ("authorization", it)).iter().chain(headers) {
            request = request.header(*name, *value);
        }
        let mut response = match method {
            "PUT" | "POST" | "PATCH" => agent.run(request.body(body).unwrap()),
            _ => agent.run(request.body(()).unwrap()),
        }
        .unwrap();
        let text = response.body_mut().read_to_vec().unwrap();
        (response.status().as_u16(), response.headers().clone(), text)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.trigger();
        if let Some(face) = self.face.take() {
            face.stop();
        }
        let _ = self.db.close();
    }
}

pub fn basic(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}
