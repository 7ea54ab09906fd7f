//! A database behind a real server in this process, and clients connected over TCP.
#![allow(dead_code, reason = "each test file uses its own part")]

use mainstay::{Database, remote};
use mainstay_conformance::test_db::Served;
use mainstay_server::resp::{self, Handle, Settings, Shared};
use std::net::{SocketAddr, TcpListener};

/// A server that runs until it is dropped.
pub struct Face {
    pub address: SocketAddr,
    handle: Option<Handle>,
}

impl Face {
    pub fn of(db: &Database) -> Face {
        Face::at("127.0.0.1:0".parse().unwrap(), db)
    }

    pub fn at(address: SocketAddr, db: &Database) -> Face {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::new(db.clone(), Settings::default());
        Face { address, handle: Some(resp::serve(listener, &shared).unwrap()) }
    }

    pub fn options(&self) -> remote::Options {
        remote::Options::new(&self.address.to_string())
    }

    pub fn connect(&self) -> Database {
        self.options().connect().unwrap()
    }
}

impl Drop for Face {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            handle.stop();
        }
    }
}

/// Serves the database and connects a client to it.
pub fn serve(db: &Database) -> Served {
    let face = Face::of(db);
    Served { db: face.connect(), face: Box::new(face) }
}
