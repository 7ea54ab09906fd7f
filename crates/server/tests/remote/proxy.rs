//! A proxy between a client and a server, which cuts connections, swallows answers and freezes when told.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// What a frozen proxy still takes of each connection: handshakes, and no large request.
const FROZEN_AT_BYTES: usize = 64 << 10;

/// What the proxy does with connections.
#[derive(Default)]
struct State {
    /// Answers go nowhere.
    swallows: AtomicBool,
    /// Answers on so many connections, the first ones, go nowhere.
    mute: AtomicUsize,
    /// How many bytes were swallowed.
    swallowed: AtomicUsize,
    /// Requests of so many connections, the first ones, go nowhere.
    deaf: AtomicUsize,
    /// Large requests are taken no more.
    frozen: AtomicBool,
    /// How many connections there were.
    count: AtomicUsize,
    sockets: Mutex<Vec<TcpStream>>,
}

/// A proxy to one server.
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
                let (client, server) = (client.unwrap(), TcpStream::connect(server).unwrap());
                let number = shared.count.fetch_add(1, Ordering::SeqCst);
                join(client, server, number, &shared);
            }
        });
        Proxy { address, state }
    }

    /// Lets answers vanish from now on, or no more.
    pub fn swallow(&self, swallows: bool) {
        self.state.swallowed.store(0, Ordering::SeqCst);
        self.state.swallows.store(swallows, Ordering::SeqCst);
    }

    /// Lets answers vanish on the connections that there are, for good.
    pub fn mute(&self) {
        self.state.swallowed.store(0, Ordering::SeqCst);
        self.state.mute.store(self.count(), Ordering::SeqCst);
    }

    /// Lets requests vanish, those of the connections that there are.
    pub fn deafen(&self) {
        self.state.swallowed.store(0, Ordering::SeqCst);
        self.state.deaf.store(self.count(), Ordering::SeqCst);
    }

    /// Takes nothing any more of a connection that says much, or takes it again.
    pub fn freeze(&self, frozen: bool) {
        self.state.frozen.store(frozen, Ordering::SeqCst);
    }

    /// Waits until something has vanished: of an answer, that shows that the server has done what
    /// was asked.
    pub fn wait_until_swallowed(&self) {
        while self.state.swallowed.load(Ordering::SeqCst) == 0 {
            thread::yield_now();
        }
    }

    /// Ends all connections.
    pub fn cut(&self) {
        for socket in self.state.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    /// How many connections there were.
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
    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let state = state.clone();
    thread::spawn(move || pump(from, to, &swallows, &state));
}

fn pump(mut from: TcpStream, mut to: TcpStream, swallows: &dyn Fn(&State) -> bool, state: &State) {
    let (mut buffer, mut passed) = ([0; 64 << 10], 0);
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
