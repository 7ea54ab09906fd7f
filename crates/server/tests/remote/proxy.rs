//! A proxy between a client and a server that can cut connections, drop answers and freeze.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Bytes that a frozen proxy still forwards per connection: enough for handshakes, too few for a large
/// request.
const FROZEN_AT_BYTES: usize = 64 << 10;

/// The state of the proxy. It uses `SeqCst`, so all threads of a test see the switches in one order.
#[derive(Default)]
struct State {
    /// True if answers are dropped.
    swallows: AtomicBool,
    /// Answers on this many of the first connections are dropped.
    mute: AtomicUsize,
    /// Number of dropped bytes.
    swallowed: AtomicUsize,
    /// Requests of this many of the first connections are dropped.
    deaf: AtomicUsize,
    /// True if large requests are no longer read.
    frozen: AtomicBool,
    /// Number of connections so far.
    count: AtomicUsize,
    sockets: Mutex<Vec<TcpStream>>,
}

pub struct Proxy {
    pub address: SocketAddr,
    state: Arc<State>,
}

impl Proxy {
    pub fn to(server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state: Arc<State> = Arc::default();
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(server).unwrap();
                let number = shared.count.fetch_add(1, Ordering::SeqCst);
                join(client, server, number, &shared);
            }
        });
        Proxy { address, state }
    }

    /// Starts or stops dropping answers.
    pub fn swallow(&self, swallows: bool) {
        self.state.swallowed.store(0, Ordering::SeqCst);
        self.state.swallows.store(swallows, Ordering::SeqCst);
    }

    /// Drops all further answers on the present connections.
    pub fn mute(&self) {
        self.state.swallowed.store(0, Ordering::SeqCst);
        self.state.mute.store(self.count(), Ordering::SeqCst);
    }

    /// Drops all further requests on the present connections.
    pub fn deafen(&self) {
        self.state.swallowed.store(0, Ordering::SeqCst);
        self.state.deaf.store(self.count(), Ordering::SeqCst);
    }

    /// Stops or resumes reading large requests.
    pub fn freeze(&self, frozen: bool) {
        self.state.frozen.store(frozen, Ordering::SeqCst);
    }

    /// Waits until something was dropped. A dropped answer shows that the server has executed the request.
    pub fn wait_until_swallowed(&self) {
        while self.state.swallowed.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }

    /// Closes all connections.
    pub fn cut(&self) {
        for socket in self.state.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// Returns the number of connections so far.
    pub fn count(&self) -> usize {
        self.state.count.load(Ordering::SeqCst)
    }

    pub fn options(&self) -> mainstay::remote::Options {
        mainstay::remote::Options::new(&self.address.to_string())
    }
}

fn join(client: TcpStream, server: TcpStream, number: usize, state: &Arc<State>) {
    let is_deaf = move |state: &State| number < state.deaf.load(Ordering::SeqCst);
    let swallows = move |state: &State| {
        state.swallows.load(Ordering::SeqCst) || number < state.mute.load(Ordering::SeqCst)
    };
    pump_aside(&client, &server, is_deaf, state);
    pump_aside(&server, &client, swallows, state);
    state.sockets.lock().unwrap().extend([client, server]);
}

fn pump_aside(
    from: &TcpStream,
    to: &TcpStream,
    swallows: impl Fn(&State) -> bool + Send + 'static,
    state: &Arc<State>,
) {
    let from = from.try_clone().unwrap();
    let to = to.try_clone().unwrap();
    let state = state.clone();
    thread::spawn(move || pump(from, to, &swallows, &state));
}

fn pump(mut from: TcpStream, mut to: TcpStream, swallows: &dyn Fn(&State) -> bool, state: &State) {
    let mut buffer = [0; 64 << 10];
    let mut passed = 0;
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        passed += count;
        while passed > FROZEN_AT_BYTES && state.frozen.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(1));
        }
        if swallows(state) {
            state.swallowed.fetch_add(count, Ordering::SeqCst);
            continue;
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
