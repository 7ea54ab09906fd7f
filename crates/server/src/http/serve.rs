//! The HTTP listener: a runtime of its own, a connection limit, and graceful shutdown.
//!
//! ```text
//!   listener --accept--> slot? --yes--> connection task: TLS handshake with a timeout, if TLS is on
//!                          |no                |
//!                          v                  v
//!                        503, closed        headers with a timeout, router, writes with a timeout
//!   stop: no more accepted --> feeds end, requests under way are answered --> threads end
//! ```

use super::access::Peer;
use super::answers;
use super::patience::Patient;
use super::refusal::Refusal;
use super::shares::ConnectionShare;
use super::{Http, LOOKS, router};
use crate::tls::{FIRST_BYTE, Tls};
use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

/// Blocking threads besides those for slow reads and transfers; they read and write pieces of files.
const FILE_THREADS: usize = 8;
/// The largest request head. It is buffered before the user is known.
const HEAD_LIMIT_BYTES: usize = 64 << 10;
/// The upper bound of the connection limit.
const CONNECTIONS: usize = 1 << 20;
/// The most connections over the limit that receive a 503 at the same time. Further ones are closed without a
/// response.
const REFUSALS: usize = 64;
/// The time limit for such a 503.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// The pause after a failed `accept`, for example when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// After this many accepted connections in a row, the accept loop yields to other tasks.
const ACCEPTED_AT_ONCE: usize = 8;

/// The longest time that abandoned work may delay the shutdown.
const ABANDONED_LIMIT: Duration = Duration::from_secs(1);

/// A handle that stops a server. All clones stop the same server.
#[derive(Clone, Debug, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// A handle for a server that runs until `trigger` is called.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Stops the server: no further connection is accepted, and requests under way are answered.
    pub fn trigger(&self) {
        self.0.cancel();
    }
}

/// A running server.
#[must_use = "wait for it, or it stops with the process"]
pub struct Serving {
    thread: JoinHandle<()>,
}

impl Serving {
    /// Waits until the server was stopped and all requests under way are answered.
    pub fn wait(self) -> io::Result<()> {
        self.thread.join().map_err(|_| io::Error::other("the HTTP server's thread panicked"))
    }
}

/// Serves on a listener without TLS, on its own threads, until it is stopped.
pub fn serve(listener: std::net::TcpListener, app: Http, stop: Stop) -> io::Result<Serving> {
    serve_with(listener, None, app, stop)
}

/// Serves on a listener, with or without TLS, on its own threads, until it is stopped.
pub fn serve_with(
    listener: std::net::TcpListener,
    tls: Option<Tls>,
    app: Http,
    stop: Stop,
) -> io::Result<Serving> {
    listener.set_nonblocking(true)?;
    let blocking = app.settings().slow_reads + app.settings().transfers + LOOKS + FILE_THREADS;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(app.settings().threads.max(1))
        .max_blocking_threads(blocking)
        .thread_name("mainstay-http")
        .enable_all()
        .build()?;
    let run = move || run(runtime, listener, tls, app, &stop);
    let thread = std::thread::Builder::new().name("mainstay-http".into());
    Ok(Serving { thread: thread.spawn(run)? })
}

fn run(
    runtime: Runtime,
    listener: std::net::TcpListener,
    tls: Option<Tls>,
    app: Http,
    stop: &Stop,
) {
    runtime.block_on(async {
        // A bound listener can only fail here if the runtime is shutting down.
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        let server = Server::new(app, tls);
        tokio::select! {
            () = server.accept_all(listener) => {}
            () = stop.0.cancelled() => {}
        }
        server.drain().await;
    });
    // A transfer whose client has disconnected may still be running.
    runtime.shutdown_timeout(ABANDONED_LIMIT);
}

/// The most connections over the limit that receive a 503 at once. Each takes a file descriptor, and if
/// descriptors are few the database needs the rest.
fn refusals(connections: usize) -> usize {
    (connections / 8).clamp(1, REFUSALS)
}

struct Server {
    app: Http,
    tls: Option<Tls>,
    router: Router,
    seats: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    graceful: GracefulShutdown,
}

impl Server {
    fn new(app: Http, tls: Option<Tls>) -> Server {
        Server {
            router: router(app.clone()),
            seats: Arc::new(Semaphore::new(app.settings().connections.clamp(1, CONNECTIONS))),
            refusals: Arc::new(Semaphore::new(refusals(app.settings().connections))),
            graceful: GracefulShutdown::new(),
            app,
            tls,
        }
    }

    async fn accept_all(&self, listener: TcpListener) {
        loop {
            for _ in 0..ACCEPTED_AT_ONCE {
                match listener.accept().await {
                    Ok((stream, peer)) => self.seat(stream, Peer(peer)),
                    Err(error) => {
                        tracing::debug!(%error, "a connection was not accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
            // Lets open connections make progress during a flood of new ones.
            tokio::task::yield_now().await;
        }
    }

    fn seat(&self, stream: TcpStream, peer: Peer) {
        // Disables Nagle's algorithm, so that small responses leave at once. On failure they leave a little
        // later.
        let _ = stream.set_nodelay(true);
        match self.seats.clone().try_acquire_owned() {
            Ok(seat) => self.connect(stream, peer, seat),
            Err(_) => self.refuse(stream),
        }
    }

    fn connect(&self, stream: TcpStream, peer: Peer, seat: OwnedSemaphorePermit) {
        let talk = Talk {
            app: self.app.clone(),
            router: self.router.clone(),
            peer,
            end: self.graceful.watcher(),
        };
        let tls = self.tls.clone();
        tokio::spawn(async move {
            let _seat = seat;
            let app = talk.app.clone();
            app.metrics().connections.inc();
            match tls {
                None => talk.on(stream).await,
                Some(tls) => talk.on_tls(stream, &tls).await,
            }
            app.metrics().connections.dec();
        });
    }

    fn refuse(&self, stream: TcpStream) {
        self.app.metrics().refused.inc();
        tracing::debug!("a connection was refused: there are too many");
        if self.tls.is_some() {
            // A response would need a TLS handshake first.
            return;
        }
        if let Ok(seat) = self.refusals.clone().try_acquire_owned() {
            tokio::spawn(async move {
                let _seat = seat;
                // A client that does not read is disconnected without a response.
                let _ = tokio::time::timeout(REFUSAL_LIMIT, tell_full(stream)).await;
            });
        }
    }

    /// Waits for requests under way, up to the drain limit.
    async fn drain(self) {
        self.app.start_draining();
        let limit = self.app.settings().drain_limit();
        // Requests that are still running are cut when the runtime stops.
        let _ = tokio::time::timeout(limit, self.graceful.shutdown()).await;
    }
}

/// One connection.
struct Talk {
    app: Http,
    router: Router,
    peer: Peer,
    end: Watcher,
}

impl Talk {
    /// Serves requests on a stream until it ends.
    async fn on(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let settings = self.app.settings();
        let stream = TokioIo::new(Patient::new(stream, settings.write_limit()));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(settings.header_limit());
        builder.max_buf_size(HEAD_LIMIT_BYTES).max_header_size(HEAD_LIMIT_BYTES);
        let router = TowerToHyperService::new(self.router);
        let peer = self.peer;
        let account = self.app.memory().connect(None);
        let share = ConnectionShare::default();
        let asks_for_users = self.app.security().stranger().is_none();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(share.clone());
            let answering = answers::on(account.clone(), router.call(request));
            let share = share.clone();
            async move {
                let mut answered = answering.await;
                // On a server with users, an unauthenticated connection is closed after each response. Health
                // checks and refusals are single requests, so they need no slot.
                if let (Ok(response), true) = (&mut answered, asks_for_users && share.is_nobodys())
                {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                answered
            }
        });
        // A broken connection only affects its client, which has noticed.
        let _ = self.end.watch(builder.serve_connection(stream, service)).await;
    }

    /// Serves requests behind a TLS handshake. Shutdown does not wait for the handshake.
    async fn on_tls(self, stream: TcpStream, tls: &Tls) {
        let app = self.app.clone();
        let secured = tokio::select! {
            secured = tokio::time::timeout(tls.handshake_limit(), handshake(stream, tls)) => secured,
            () = app.draining().cancelled() => return,
        };
        // On failure, TLS has already sent an alert to the client where it can.
        if let Ok(Ok(Some(stream))) = secured {
            self.on(stream).await;
        }
    }
}

/// Performs the TLS handshake. A client that does not speak TLS gets a plain HTTP error and `None` is
/// returned.
async fn handshake(stream: TcpStream, tls: &Tls) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    if stream.peek(&mut first).await? > 0 && first[0] != FIRST_BYTE {
        tell_plain(stream).await?;
        return Ok(None);
    }
    TlsAcceptor::from(tls.config()).accept(stream).await.map(Some)
}

/// Answers 400 to a client that does not speak TLS.
async fn tell_plain(stream: TcpStream) -> io::Result<()> {
    let body = Refusal::invalid("this port speaks TLS: ask it with https://").text();
    tell(stream, "400 Bad Request", &body).await
}

/// Answers 503 to any request.
async fn tell_full(stream: TcpStream) -> io::Result<()> {
    let message =
        "there are as many connections as there may be: try later, or raise http.connections";
    let body = Refusal::unavailable("TooManyConnections", message).text();
    tell(stream, "503 Service Unavailable\r\nretry-after: 1", &body).await
}

/// Sends a response without parsing the request. It reads the request first, because closing a socket with
/// unread bytes resets the connection and discards the response.
async fn tell(mut stream: TcpStream, status: &str, body: &str) -> io::Result<()> {
    let mut bytes = [0; 4096];
    let _ = stream.read(&mut bytes).await?;
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n\
         x-content-type-options: nosniff\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut bytes).await? > 0 {}
    Ok(())
}
