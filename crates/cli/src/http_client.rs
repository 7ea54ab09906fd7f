//! An HTTP client for file transfers, because files are too large for RESP.
//!
//! ```text
//!   CONFIG GET http-address, or --http --> client -+--> download: response --> FILE.part, verified --> FILE
//!                                                  +--> upload:   FILE --> request --> the server's answer
//! ```

use super::args::TlsArgs;
use super::command_builder::CommandBuilder;
use super::context::Context;
use super::failure::{Failure, Result};
use super::http_tls;
use super::password::Credentials;
use super::progress::Bar;
use super::reply::Reply;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clap::Args;
use mainstay::{AtomicFile, Progress};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;
use ureq::http::{Request, Response, header, request};
use ureq::{Agent, Body, SendBody};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time without a byte. It is long because a server writes and verifies the whole file before it
/// sends the first byte.
const SILENCE_LIMIT: Duration = Duration::from_secs(3600);
const PIECE_BYTES: usize = 256 << 10;

/// Where the HTTP face of a server is.
#[derive(Clone, Debug, Args)]
pub struct HttpArgs {
    /// The HTTP face of the server [default: where the server says it is]
    #[arg(long = "http", value_name = "URL")]
    pub url: Option<String>,
}

/// A client for the HTTP face of a server.
pub struct HttpClient {
    agent: Agent,
    base: String,
    credentials: Option<Credentials>,
}

impl HttpClient {
    /// Returns a client; `None` if the store is a directory.
    pub fn for_server(context: &mut Context, args: &HttpArgs) -> Result<Option<HttpClient>> {
        match (context.is_directory(), &args.url) {
            (true, None) => Ok(None),
            (true, Some(_)) => Err(Failure::error("give --data DIR or --http URL, not both")),
            (false, _) => HttpClient::new(context, args).map(Some),
        }
    }

    /// Uses the given URL, or asks the server over RESP.
    fn new(context: &mut Context, args: &HttpArgs) -> Result<HttpClient> {
        let base = match &args.url {
            Some(url) => with_scheme(url.trim_end_matches('/'), context.tls())?,
            None => request_base_url(context)?,
        };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .tls_config(http_tls::config(context.tls())?)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_per_read(Some(SILENCE_LIMIT))
            .timeout_per_write(Some(SILENCE_LIMIT));
        let credentials = context.credentials()?;
        Ok(HttpClient { agent: config.build().into(), base, credentials })
    }

    /// Downloads a response to a file. The file gets its name only after `check` succeeds.
    pub fn download<T>(
        &self,
        method: &str,
        path: &str,
        file: &Path,
        bar: &Bar,
        check: impl FnOnce(&Path, &Response<Body>) -> Result<T>,
    ) -> Result<T> {
        let mut part = AtomicFile::create(file)?;
        let request = self.request(method, path);
        let response = match method {
            "POST" => self.agent.run(build_request(request.body(()))?.map(|()| SendBody::none())),
            _ => self.agent.run(build_request(request.body(()))?),
        };
        let mut response = self.expect_success(response)?;
        self.receive(&mut response, &mut part, bar)?;
        let checked = check(part.part(), &response)?;
        part.finish()?;
        Ok(checked)
    }

    /// Uploads a file and returns the answer.
    pub fn upload(
        &self,
        method: &str,
        path: &str,
        file: &Path,
        bar: &Bar,
    ) -> Result<serde_json::Value> {
        let mut reader = ProgressReader::open(file, "sending", bar)?;
        let request = self.request(method, path).header(header::CONTENT_LENGTH, reader.total);
        let request = build_request(request.body(SendBody::from_reader(&mut reader)))?;
        let mut response = self.expect_success(self.agent.run(request))?;
        let text = response
            .body_mut()
            .read_to_string()
            .map_err(|error| self.connection_failure(&error))?;
        serde_json::from_str(&text).map_err(|_| self.unexpected_answer(&text))
    }

    fn request(&self, method: &str, path: &str) -> request::Builder {
        let request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        match &self.credentials {
            Some(credentials) => {
                request.header(header::AUTHORIZATION, basic_authorization(credentials))
            }
            None => request,
        }
    }

    /// Returns a successful response. Any other status becomes a failure with the server's message.
    fn expect_success(
        &self,
        response: std::result::Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>> {
        let mut response = response.map_err(|error| self.connection_failure(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let text = response.body_mut().read_to_string().unwrap_or_default();
        Err(parse_error(&text).unwrap_or_else(|| self.unexpected_answer(&text)))
    }

    fn receive(
        &self,
        response: &mut Response<Body>,
        part: &mut AtomicFile,
        bar: &Bar,
    ) -> Result<()> {
        let total = response.body().content_length();
        let mut done = 0;
        let mut piece = vec![0; PIECE_BYTES];
        let mut body = response.body_mut().as_reader();
        loop {
            let read = match body.read(&mut piece) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) => return Err(self.truncation_failure(done, total, &error)),
            };
            part.write_all(&piece[..read]).map_err(|error| write_failure(part.part(), &error))?;
            done += read as u64;
            bar.show(Progress { phase: "receiving", done, total });
        }
        if total.is_none_or(|total| total == done) {
            Ok(())
        } else {
            Err(self.truncation_failure(done, total, &io::ErrorKind::UnexpectedEof.into()))
        }
    }

    fn connection_failure(&self, error: &ureq::Error) -> Failure {
        let base = &self.base;
        Failure::error(match error {
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => {
                format!("{base} is no address: --http wants a URL, as http://127.0.0.1:7380")
            }
            ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => {
                format!("no server was reached at {base}: name its HTTP face with --http URL")
            }
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                format!("nobody listens at {base}: name the server's HTTP face with --http URL")
            }
            error => {
                format!("the connection to {base} broke ({error}): nothing was kept, ask again")
            }
        })
    }

    fn truncation_failure(&self, done: u64, total: Option<u64>, error: &io::Error) -> Failure {
        let of = total.map(|total| format!(" of {total}")).unwrap_or_default();
        Failure::error(format!(
            "{} stopped sending after {done}{of} bytes ({error}): nothing was kept, ask again when \
             it is back",
            self.base
        ))
    }

    fn unexpected_answer(&self, text: &str) -> Failure {
        let text: String = text.chars().take(200).collect();
        Failure::error(format!(
            "{} does not answer as the HTTP face of Mainstay does ({text:?}): --http wants that one",
            self.base
        ))
    }
}

/// The value of the `Authorization: Basic` header.
fn basic_authorization(credentials: &Credentials) -> String {
    let pair = [credentials.user.as_bytes(), b":", credentials.password.expose()].concat();
    format!("Basic {}", BASE64_STANDARD.encode(pair))
}

fn build_request<T>(
    request: std::result::Result<Request<T>, ureq::http::Error>,
) -> Result<Request<T>> {
    request.map_err(|error| Failure::error(format!("the address cannot be asked for: {error}")))
}

/// Requires a scheme in the URL.
fn with_scheme(url: &str, tls: &TlsArgs) -> Result<String> {
    let scheme = if tls.is_enabled() { "https" } else { "http" };
    if url.starts_with("http://") || url.starts_with("https://") {
        Ok(url.to_owned())
    } else {
        Err(Failure::error(format!("--http wants a URL, as {scheme}://{url}")))
    }
}

/// Requests the URL of the HTTP face over RESP.
fn request_base_url(context: &mut Context) -> Result<String> {
    let store = context.store()?;
    let call = CommandBuilder::new("CONFIG").word("GET").word("http-address");
    let reply = match store.call(call.words())? {
        Reply::Map(pairs) => pairs.into_iter().next().map(|(_, value)| value),
        _ => None,
    };
    match reply {
        Some(Reply::Text(url)) if !url.is_empty() => {
            Ok(replace_wildcard_host(&String::from_utf8_lossy(&url), &store.name()))
        }
        _ => Err(Failure::error(format!(
            "files are too large for RESP, and {} does not say where its HTTP face is: name that \
             with --http URL, or stop the server and name its directory with --data DIR",
            store.name()
        ))),
    }
}

/// Replaces a wildcard address by the host at which the RESP face was reached.
fn replace_wildcard_host(url: &str, resp: &str) -> String {
    let host = resp.rsplit_once(':').map_or(resp, |(host, _)| host);
    for everywhere in ["//0.0.0.0:", "//[::]:"] {
        if let Some((scheme, port)) = url.split_once(everywhere) {
            return format!("{scheme}//{host}:{port}");
        }
    }
    url.to_owned()
}

/// Parses an error response; `None` if it is not from this server.
fn parse_error(text: &str) -> Option<Failure> {
    let body: serde_json::Value = serde_json::from_str(text).ok()?;
    let error = body.get("error")?;
    let word = |name: &str| error.get(name)?.as_str();
    let message = format!("{}: {}", word("code")?, word("message")?);
    match word("kind")? {
        "NotFound" | "Exists" | "Conflict" => Some(Failure::negative(message)),
        _ => Some(Failure::error(message)),
    }
}

fn write_failure(path: &Path, error: &io::Error) -> Failure {
    let advice = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space here",
        _ => "nothing was kept",
    };
    Failure::error(format!("{} cannot be written: {error}; {advice}", path.display()))
}

/// A file reader with a progress bar.
pub struct ProgressReader<'a> {
    file: File,
    phase: &'static str,
    bar: &'a Bar,
    done: u64,
    total: u64,
}

impl<'a> ProgressReader<'a> {
    /// Opens a file at its beginning.
    pub fn open(file: &Path, phase: &'static str, bar: &'a Bar) -> Result<ProgressReader<'a>> {
        let unreadable = |error: io::Error| {
            Failure::error(format!("{} cannot be read: {error}", file.display()))
        };
        let opened = File::open(file).map_err(unreadable)?;
        let total = opened.metadata().map_err(unreadable)?.len();
        Ok(ProgressReader { file: opened, phase, bar, done: 0, total })
    }
}

impl Read for ProgressReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(bytes)?;
        self.done += read as u64;
        self.bar.show(Progress { phase: self.phase, done: self.done, total: Some(self.total) });
        Ok(read)
    }
}

/// Percent-encodes a name for the end of a path. Slashes are kept.
pub fn encode_path(name: &str) -> String {
    percent_encode(name, b"-._~/")
}

/// Percent-encodes a name for one path segment or a query argument.
pub fn encode_segment(name: &str) -> String {
    percent_encode(name, b"-._~")
}

fn percent_encode(name: &str, signs: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || signs.contains(&byte);
    let one =
        |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_face_that_listens_everywhere_is_reached_where_the_other_was() {
        let same = "http://127.0.0.1:7380";
        assert_eq!(replace_wildcard_host(same, "db.example:7379"), same);
        assert_eq!(
            replace_wildcard_host("http://0.0.0.0:80", "db.example:7379"),
            "http://db.example:80"
        );
        assert_eq!(replace_wildcard_host("https://[::]:80", "[::1]:7379"), "https://[::1]:80");
    }

    #[test]
    fn names_become_paths() {
        assert_eq!(encode_path("team/a b%?#é"), "team/a%20b%25%3F%23%C3%A9");
        assert_eq!(encode_segment("team/a&b"), "team%2Fa%26b");
    }

    #[test]
    fn refusals_keep_their_words_and_their_exit_code() {
        let text = r#"{"error":{"code":"BranchExists","kind":"Exists","message":"there is one"}}"#;
        let failure = parse_error(text).unwrap();
        assert_eq!(
            (failure.code(), failure.to_string().as_str()),
            (1, "BranchExists: there is one")
        );
        assert_eq!(parse_error(&text.replace("\"Exists\"", "\"Unavailable\"")).unwrap().code(), 2);
        assert!(parse_error("<html>").is_none() && parse_error("{}").is_none());
    }
}
