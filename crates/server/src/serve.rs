//! `mainstay serve`: runs a database and its front ends until a signal arrives.
//!
//! ```text
//!   open the database -> listen -> welcome, READY -> SIGTERM -> drain -> close
//!                                             SIGHUP: newer certificates
//! ```

use crate::config::Config;
use crate::crew::Crew;
use crate::jobs::{Desk, start_sweeping};
use crate::memory::MemoryBudget;
use crate::security::Security;
use crate::telemetry::{self, Telemetry};
use crate::tls::{Tls, Watch};
use crate::{files, http, resp};
use mainstay::{Code, Database, Error, OpenReport, Result};
use rustix::fs::Mode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

/// Checks the settings before anything is opened.
pub(crate) fn check(serve: &Config) -> Result<()> {
    let resp = serve.resp.address.resolve()?;
    let http = serve.http.address.resolve()?;
    if resp == http && resp.port() != 0 {
        let message = format!("resp.address and http.address are both {resp}: choose two");
        return Err(Error::new(Code::InvalidOption, message));
    }
    check_reach(resp, serve)?;
    check_reach(http, serve)
}

/// Serves until a signal arrives. `welcome` receives the examples to try, once the server is ready.
pub fn run(serve: &Config, welcome: impl FnOnce(&str)) -> Result<()> {
    check(serve)?;
    if !serve.database.keep_modes {
        // The umask restricts files created by the stores, the audit log and the archive to the owner too.
        // It applies to the whole process, so it is set before any thread is started.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
    }
    let telemetry = Telemetry::start(&serve.log, &serve.telemetry)?;
    let served = run_told(serve, welcome);
    // The caller prints the error on stderr anyway.
    if let Err(error) = &served
        && serve.log.output != telemetry::Output::Stderr
    {
        tracing::error!(%error, "the server ends because of a failure");
    }
    telemetry.finish();
    served
}

fn run_told(serve: &Config, welcome: impl FnOnce(&str)) -> Result<()> {
    let security = Security::new(&serve.security)?;
    let tls = Tls::open(&serve.tls)?;
    let serve = &files::fitted(serve);
    let db = serve.database.options().open(&serve.server.data)?;
    tell_opening(serve, &db);
    let crew = Crew::start(&db, serve)?;
    let watch = telemetry::Watch::start(db.clone(), crew.clone());
    let watch = watch.map_err(|error| failed("the watch", &error))?;
    let listener = listen(serve.resp.address.resolve()?, "--resp")?;
    let at = listener.local_addr().map_err(|error| failed("the listener", &error))?;
    let mut signals =
        Signals::new([SIGTERM, SIGINT, SIGHUP]).map_err(|error| failed("signals", &error))?;
    let jobs = Desk::new(db.clone(), serve.jobs.clone())?;
    // One budget for all front ends: a client that has used it up on one is rejected on the other.
    let memory = MemoryBudget::new(serve.memory.clone());
    let settings = serve.resp_settings();
    let users = security.clone();
    let shared =
        resp::Shared::with_memory_budget(db.clone(), settings, users, jobs.clone(), memory.clone());
    let resp_tls = tls_if(&tls, serve.tls.resp);
    let http_tls = tls_if(&tls, serve.tls.http);
    let face = resp::serve_with(listener, resp_tls, &shared)
        .map_err(|error| failed("the event loops", &error))?;
    let web = serve.http_settings().with_scratch_in(&serve.server.data);
    let web = web.map_err(|error| failed("the place of files on their way", &error))?;
    let app = http_app(&db, web, security, jobs.clone(), memory)?;
    let stop = http::Stop::default();
    let web = listen(serve.http.address.resolve()?, "--http")?;
    let web_at = web.local_addr().map_err(|error| failed("the listener", &error))?;
    let scheme = if http_tls.is_some() { "https" } else { "http" };
    shared.set_http_address(format!("{scheme}://{web_at}"));
    let serving = http::serve_with(web, http_tls, app.clone(), stop.clone())
        .map_err(|error| failed("the HTTP face", &error))?;
    let files = tls.as_ref().map(Tls::watch).transpose();
    let files = files.map_err(|error| failed("the watch of certificates", &error))?;
    app.show_resp(&shared);
    app.show_crew(&crew);
    let sweeping = start_sweeping(&jobs)?;
    tracing::info!(resp = %at, http = %web_at, "listening");
    welcome(&what_to_try(serve, at, web_at));
    // This does nothing outside systemd.
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Ready]);
    wait_for_the_end(&mut signals, files.as_ref());
    let _ = sd_notify::notify(false, &[sd_notify::NotifyState::Stopping]);
    tracing::info!(connections = shared.client_count(), "draining");
    app.start_draining();
    stop.trigger();
    face.stop();
    serving.wait().map_err(|error| failed("the end of the HTTP face", &error))?;
    drop(sweeping);
    crew.stop();
    let closed = db.close();
    drop(watch);
    tracing::info!("stopped");
    closed
}

/// Logs the result of opening the database.
fn tell_opening(serve: &Config, db: &Database) {
    let OpenReport { replayed, cut, rebuilt, base, .. } = db.open_report();
    let data = serve.server.data.display();
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(version, %data, revision = db.revision(), replayed, "the database is open");
    if let Some(cut) = cut {
        tracing::warn!(%cut, "a torn end of the log was cut off: nothing in it was acknowledged");
    }
    if let Some(why) = rebuilt {
        tracing::warn!(%why, ?base, "the index was rebuilt from the log");
    }
}

fn tls_if(tls: &Option<Tls>, wanted: bool) -> Option<Tls> {
    tls.clone().filter(|_| wanted)
}

/// Waits for a signal to stop. SIGHUP, which `systemctl reload` sends, reloads the TLS files if there are
/// some.
fn wait_for_the_end(signals: &mut Signals, watch: Option<&Watch>) {
    for signal in signals.forever() {
        match (signal, watch) {
            (SIGHUP, Some(watch)) => watch.look_now(),
            (SIGHUP, None) => tracing::info!("SIGHUP: there is nothing to read again without TLS"),
            _ => return,
        }
    }
}

fn http_app(
    db: &Database,
    settings: http::Settings,
    security: Arc<Security>,
    jobs: Arc<Desk>,
    memory: Arc<MemoryBudget>,
) -> Result<http::Http> {
    let app = http::Http::budgeted(db.clone(), settings, security, jobs, memory);
    app.map_err(|error| failed("the HTTP face", &error))
}

fn what_to_try(serve: &Config, at: SocketAddr, web: SocketAddr) -> String {
    let has_tls = serve.tls.certificate.is_some();
    let scheme = if has_tls && serve.tls.http { "https" } else { "http" };
    let port = if has_tls && serve.tls.resp {
        format!("{} --tls", at.port())
    } else {
        at.port().to_string()
    };
    let lines = [
        (format!("redis-cli -p {port} SET greeting hello"), ""),
        (format!("redis-cli -p {port} CELL.GETV greeting"), "value, counter, stamp, revision"),
        (format!("redis-cli -p {port} BRANCH.FORK trial"), "a branch, in constant time"),
        (format!("redis-cli -p {port} CELL.GET greeting REV 1"), "as it was"),
        (format!("curl {scheme}://{web}/v1/cells/greeting"), "the same as JSON"),
        (format!("curl {scheme}://{web}/docs"), "all of that face, for a browser"),
        ("mainstay repl".to_owned(), "all of it, with help"),
    ];
    let width = lines.iter().map(|(try_it, _)| try_it.len() + 2).max().unwrap_or_default();
    let lines: String =
        lines.iter().map(|(try_it, why)| format!("  {try_it:<width$}{why}\n")).collect();
    let login = if serve.security.users.is_empty() {
        ""
    } else {
        "Say who you are with `--user NAME`, and to redis-cli `--askpass`, too.\n"
    };
    format!("mainstay serves {}\n\n{lines}\n{login}Ctrl-C stops it.", serve.server.data.display())
}

fn listen(address: SocketAddr, flag: &str) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!(": another program listens there; choose another address with {flag}")
            }
            _ => String::new(),
        };
        Error::new(Code::Io, format!("cannot listen on {address}: {error}{hint}"))
    })
}

/// Checks that without users only this machine can connect, because every client may then do everything.
fn check_reach(address: SocketAddr, serve: &Config) -> Result<()> {
    if !serve.security.users.is_empty() || address.ip().is_loopback() {
        return Ok(());
    }
    let message = format!(
        "{address} can be reached from other machines, and there are no users, so everybody could do \
         everything: give users under [security], or listen on 127.0.0.1"
    );
    Err(Error::new(Code::InvalidOption, message))
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(Code::Io, format!("{what} could not be set up: {error}"))
}
