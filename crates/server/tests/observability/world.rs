//! Both front ends of one database, in this process.

use crate::support::Client;
use mainstay::{Database, Options};
use mainstay_server::http::{self, Http, Serving, Stop};
use mainstay_server::resp::{self, Handle, Settings, Shared};
use std::net::{SocketAddr, TcpListener};
use tempfile::TempDir;

pub struct World {
    pub db: Database,
    pub resp: SocketAddr,
    pub http: SocketAddr,
    handle: Option<Handle>,
    serving: Option<Serving>,
    stop: Stop,
    directory: Option<TempDir>,
}

impl World {
    pub fn new(settings: Settings) -> World {
        let directory = tempfile::tempdir().unwrap();
        let db = Options::new().open(directory.path().join("data")).unwrap();
        let mut world = World::of(db, settings);
        world.directory = Some(directory);
        world
    }

    pub fn of(db: Database, settings: Settings) -> World {
        let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
        let resp_listener = bind();
        let http_listener = bind();
        let at = |listener: &TcpListener| listener.local_addr().unwrap();
        let resp = at(&resp_listener);
        let http = at(&http_listener);
        let shared = Shared::new(db.clone(), settings);
        let handle = Some(resp::serve(resp_listener, &shared).unwrap());
        let app = Http::new(db.clone(), http::Settings::default()).unwrap();
        app.show_resp(&shared);
        let stop = Stop::new();
        let serving = Some(http::serve(http_listener, app, stop.clone()).unwrap());
        World { db, resp, http, handle, serving, stop, directory: None }
    }

    pub fn client(&self) -> Client {
        Client::to(self.resp)
    }

    pub fn get(&self, path: &str) -> String {
        get(self.http, path)
    }

    pub fn metrics(&self) -> String {
        self.get("/metrics")
    }

    /// Returns the value of a metric.
    pub fn metric(&self, name: &str) -> f64 {
        let page = self.metrics();
        let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().unwrap()
    }
}

/// Returns the body at a path.
pub fn get(address: SocketAddr, path: &str) -> String {
    let mut answer = ureq::get(format!("http://{address}{path}")).call().unwrap();
    answer.body_mut().read_to_string().unwrap()
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.stop();
        }
        self.stop.trigger();
        if let Some(serving) = self.serving.take() {
            let _ = serving.wait();
        }
        let _ = self.db.close();
    }
}
