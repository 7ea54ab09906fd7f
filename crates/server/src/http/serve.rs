//! Serving: a runtime of its own, a bounded number of connections, and an orderly end.
//!
//! ```text
//!   listener --accept--> seat? --yes--> connection task: TLS in time, if there is TLS
//!                          |no                |
//!                          v                  v
//!                        503, closed        headers in time, router, patient writes
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

/// Threads that may block, beyond those for slow reads and transfers: pieces of files on their way.
const FILE_THREADS: usize = 8;
/// The most that is held of a request before its body, which is before it is known who asks.
const HEAD_LIMIT_BYTES: usize = 64 << 10;
/// The most connections that can be asked for.
const CONNECTIONS: usize = 1 << 20;
/// How many connections that are one too many are told so at once; further ones are just closed.
const REFUSALS: usize = 64;
/// How long telling them may take.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// How long to wait when the system gives no connection, as when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// After so many new connections the others are served.
const ACCEPTED_AT_ONCE: usize = 8;

/// How long work that nobody waits for any more may hold up the end.
const ABANDONED_LIMIT: Duration = Duration::from_secs(1);

/// The way to stop a server. Clones stop the same one.
#[derive(Clone, Debug, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// A server that runs until this is triggered.
    pub fn new() -> Stop {
        Stop::default()
    }

    /// Stops: no further connection is accepted, requests under way are answered.
    pub fn trigger(&self) {
        self.0.cancel();
    }
}

/// A server that runs.
#[must_use = "wait for it, or it stops with the process"]
pub struct Serving {
    thread: JoinHandle<()>,
}

impl Serving {
    /// Waits until the server was stopped and everything under way is answered.
    pub fn wait(self) -> io::Result<()> {
        self.thread.join().map_err(|_| io::Error::other("the HTTP server's thread panicked"))
    }
}

/// Serves on a listener without TLS, on threads of its own, until it is stopped.
pub fn serve(listener: std::net::TcpListener, app: Http, stop: Stop) -> io::Result<Serving> {
    serve_with(listener, None, app, stop)
}

/// Serves on a listener with TLS or without, on threads of its own, until it is stopped.
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
        // A listener that is already bound fails only when the runtime is at its end.
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        let server = Server::new(app, tls);
        tokio::select! {
            () = server.accept_all(listener) => {}
            () = stop.0.cancelled() => {}
        }
        server.drain().await;
    });
    // A transfer whose client is gone may still be at it.
    runtime.shutdown_timeout(ABANDONED_LIMIT);
}

/// How many are told at once that they are one too many: each takes a file, and where there are few files the database
/// needs the others.
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
            // Requests on open connections come before a flood of new ones.
            tokio::task::yield_now().await;
        }
    }

    fn seat(&self, stream: TcpStream, peer: Peer) {
        // Small answers leave at once; where that cannot be set they leave a little later.
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
            // Telling it would take a handshake first.
            return;
        }
        if let Ok(seat) = self.refusals.clone().try_acquire_owned() {
            tokio::spawn(async move {
                let _seat = seat;
                // Whoever does not listen is closed without a word.
                let _ = tokio::time::timeout(REFUSAL_LIMIT, tell_full(stream)).await;
            });
        }
    }

    /// Lets requests under way finish, for a while.
    async fn drain(self) {
        self.app.start_draining();
        let limit = self.app.settings().drain_limit();
        // What is not answered by then is cut when the runtime ends.
        let _ = tokio::time::timeout(limit, self.graceful.shutdown()).await;
    }
}

/// What is said on one connection.
struct Talk {
    app: Http,
    router: Router,
    peer: Peer,
    end: Watcher,
}

impl Talk {
    /// Answers what is asked on a stream, until its end.
    async fn on(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let settings = self.app.settings();
        let stream = TokioIo::new(Patient::new(stream, settings.write_limit()));
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(settings.header_limit());
        builder.max_buf_size(HEAD_LIMIT_BYTES).max_header_size(HEAD_LIMIT_BYTES);
        let (router, peer) = (TowerToHyperService::new(self.router), self.peer);
        let account = self.app.memory().connect(None);
        let share = ConnectionShare::default();
        let asks_for_users = self.app.security().stranger().is_none();
        let service = service_fn(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(peer);
            request.extensions_mut().insert(share.clone());
            let (answering, share) =
                (answers::on(account.clone(), router.call(request)), share.clone());
            async move {
                let mut answered = answering.await;
                // Whoever has not said who it is keeps no seat: health checks and refusals are one request each.
                if let (Ok(response), true) = (&mut answered, asks_for_users && share.is_nobodys())
                {
                    let close = HeaderValue::from_static("close");
                    response.headers_mut().insert(CONNECTION, close);
                }
                answered
            }
        });
        // A connection that breaks concerns nobody but its client, who has noticed.
        let _ = self.end.watch(builder.serve_connection(stream, service)).await;
    }

    /// The same behind a handshake, which nobody waits for when the server ends.
    async fn on_tls(self, stream: TcpStream, tls: &Tls) {
        let app = self.app.clone();
        let secured = tokio::select! {
            secured = tokio::time::timeout(tls.handshake_limit(), handshake(stream, tls)) => secured,
            () = app.draining().cancelled() => return,
        };
        // Whoever fails at it has been told, as far as TLS has words for it.
        if let Ok(Ok(Some(stream))) = secured {
            self.on(stream).await;
        }
    }
}

/// Agrees with a client on keys; with one that does not speak TLS on nothing, which it is told.
async fn handshake(stream: TcpStream, tls: &Tls) -> io::Result<Option<TlsStream<TcpStream>>> {
    let mut first = [0];
    if stream.peek(&mut first).await? > 0 && first[0] != FIRST_BYTE {
        tell_plain(stream).await?;
        return Ok(None);
    }
    TlsAcceptor::from(tls.config()).accept(stream).await.map(Some)
}

/// Answers whoever came without TLS.
async fn tell_plain(stream: TcpStream) -> io::Result<()> {
    let body = Refusal::invalid("this port speaks TLS: ask it with https://").text();
    tell(stream, "400 Bad Request", &body).await
}

/// Answers whatever is asked with 503.
async fn tell_full(stream: TcpStream) -> io::Result<()> {
    let message =
        "there are as many connections as there may be: try later, or raise http.connections";
    let body = Refusal::unavailable("TooManyConnections", message).text();
    tell(stream, "503 Service Unavailable\r\nretry-after: 1", &body).await
}

/// Answers without a look at what is asked. What was sent is read first: closing with unread bytes would
/// take the answer back.
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
