//! Serving: a runtime of its own, a bounded number of connections, and an orderly end.
//!
//! ```text
//!   listener --accept--> seat? --yes--> connection task: headers in time, router, patient writes
//!                          |no
//!                          v
//!                        503, closed
//!   stop: no more accepted --> feeds end, requests under way are answered --> threads end
//! ```

use super::patience::Patient;
use super::refusal::Refusal;
use super::{Http, LOOKS, router};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Threads that run requests.
const WORKERS: usize = 2;
/// Threads that may block, beyond those for slow reads and transfers: pieces of files on their way.
const FILE_THREADS: usize = 8;
/// The most connections that can be asked for.
const CONNECTIONS: usize = 1 << 20;
/// How many connections that are one too many are told so at once; further ones are just closed.
const REFUSALS: usize = 64;
/// How long telling them may take.
const REFUSAL_LIMIT: Duration = Duration::from_secs(1);
/// How long to wait when the system gives no connection, as when files run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

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

/// Serves on a listener, on threads of its own, until it is stopped.
pub fn serve(listener: std::net::TcpListener, app: Http, stop: Stop) -> io::Result<Serving> {
    listener.set_nonblocking(true)?;
    let blocking = app.settings().slow_reads + app.settings().transfers + LOOKS + FILE_THREADS;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(blocking)
        .thread_name("mainstay-http")
        .enable_all()
        .build()?;
    let run = move || run(runtime, listener, app, &stop);
    let thread = std::thread::Builder::new().name("mainstay-http".into());
    Ok(Serving { thread: thread.spawn(run)? })
}

fn run(runtime: Runtime, listener: std::net::TcpListener, app: Http, stop: &Stop) {
    runtime.block_on(async {
        // A listener that is already bound fails only when the runtime is at its end.
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        let server = Server::new(app);
        tokio::select! {
            () = server.accept_all(listener) => {}
            () = stop.0.cancelled() => {}
        }
        server.drain().await;
    });
    // A transfer whose client is gone may still be at it.
    runtime.shutdown_timeout(ABANDONED_LIMIT);
}

struct Server {
    app: Http,
    router: Router,
    seats: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
    graceful: GracefulShutdown,
}

impl Server {
    fn new(app: Http) -> Server {
        Server {
            router: router(app.clone()),
            seats: Arc::new(Semaphore::new(app.settings().connections.clamp(1, CONNECTIONS))),
            refusals: Arc::new(Semaphore::new(REFUSALS)),
            graceful: GracefulShutdown::new(),
            app,
        }
    }

    async fn accept_all(&self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => self.seat(stream),
                Err(error) => {
                    tracing::debug!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn seat(&self, stream: TcpStream) {
        // Small answers leave at once; where that cannot be set they leave a little later.
        let _ = stream.set_nodelay(true);
        match self.seats.clone().try_acquire_owned() {
            Ok(seat) => self.connect(stream, seat),
            Err(_) => self.refuse(stream),
        }
    }

    fn connect(&self, stream: TcpStream, seat: OwnedSemaphorePermit) {
        let settings = self.app.settings();
        let stream = TokioIo::new(Patient::new(stream, settings.write_limit));
        let service = TowerToHyperService::new(self.router.clone());
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(settings.header_limit);
        let connection = self.graceful.watch(builder.serve_connection(stream, service));
        let app = self.app.clone();
        tokio::spawn(async move {
            let _seat = seat;
            app.metrics().connections.inc();
            // A connection that breaks concerns nobody but its client, who has noticed.
            let _ = connection.await;
            app.metrics().connections.dec();
        });
    }

    fn refuse(&self, stream: TcpStream) {
        self.app.metrics().refused.inc();
        tracing::debug!("a connection was refused: there are too many");
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
        let limit = self.app.settings().drain_limit;
        // What is not answered by then is cut when the runtime ends.
        let _ = tokio::time::timeout(limit, self.graceful.shutdown()).await;
    }
}

/// Answers whatever is asked with 503. What was sent is read first: closing with unread bytes would
/// take the answer back.
async fn tell_full(mut stream: TcpStream) -> io::Result<()> {
    let mut bytes = [0; 4096];
    let _ = stream.read(&mut bytes).await?;
    let message = "there are as many connections as there may be: try later";
    let body = Refusal::unavailable("TooManyConnections", message).text();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut bytes).await? > 0 {}
    Ok(())
}
