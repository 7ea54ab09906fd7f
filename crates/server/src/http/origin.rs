//! Protection against cross-site requests and DNS rebinding, by the headers `Host`, `Origin` and
//! `Sec-Fetch-Site`.
//!
//! ```text
//!   a page of another site asks 127.0.0.1:    Origin: https://elsewhere  --> 403
//!   its name resolves to 127.0.0.1 (rebound): Host: elsewhere            --> 403
//!   it embeds an image from this server:      Sec-Fetch-Site: cross-site --> 403
//!   curl, programs, a page of this machine:   no Origin, or localhost    --> admitted
//! ```
//!
//! A browser runs on a machine that the server trusts, and executes code of unknown authors. It sends the
//! origin of the page and the host name of the request, and pages cannot change these headers.
//!
//! On a server with users, the browser stores the password and also sends it with requests from other sites.
//! So `Origin` and `Sec-Fetch-Site` are checked there, too. `Host` is not checked, because such servers have
//! names. A rebound name gets no password, because browsers store passwords per name.

use super::refusal::{Answered, Refusal};
use crate::security::User;
use axum::http::header::{HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue};
use std::net::IpAddr;

/// Browsers send this header also with requests that have no `Origin`, such as images and links.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses requests from pages of other origins. `everybody` is the shared user of a server without users;
/// `allowed` are the origins of `http.allowed_origins`.
pub(crate) fn check(
    headers: &HeaderMap,
    everybody: Option<&User>,
    allowed: &[String],
) -> Answered<()> {
    let mut hosts = headers.get_all(HOST).iter().filter(|_| everybody.is_some());
    if let Some(host) = hosts.find(|host| !is_address(host)) {
        return Err(refused(&HOST, host));
    }
    let is_ours = |origin: &&HeaderValue| {
        is_here(origin) || is_same(origin, headers.get(HOST)) || is_allowed(origin, allowed)
    };
    if let Some(origin) = headers.get_all(ORIGIN).iter().find(|origin| !is_ours(origin)) {
        return Err(refused(&ORIGIN, origin));
    }
    // `Origin` takes precedence: a page of this machine may be cross-site and is allowed.
    let mut sites = headers.get_all(SITE).iter().filter(|_| !headers.contains_key(ORIGIN));
    match sites.find(|site| site.as_bytes().eq_ignore_ascii_case(b"cross-site")) {
        Some(site) => Err(refused(&SITE, site)),
        None => Ok(()),
    }
}

/// Returns whether a host is `localhost` or an IP address, which DNS rebinding cannot forge.
fn is_address(host: &HeaderValue) -> bool {
    let host = host.to_str().ok().and_then(|host| host.parse().ok());
    host.is_some_and(|host: Authority| is_localhost(&host) || ip_of(&host).is_some())
}

/// Returns whether an origin is a page of this machine.
fn is_here(origin: &HeaderValue) -> bool {
    let is_loopback = |ip: IpAddr| ip.to_canonical().is_loopback();
    authority_of(origin)
        .is_some_and(|page| is_localhost(&page) || ip_of(&page).is_some_and(is_loopback))
}

/// Returns whether an origin is a page of this server, under the requested host.
fn is_same(origin: &HeaderValue, host: Option<&HeaderValue>) -> bool {
    let host = host.and_then(|host| host.to_str().ok());
    authority_of(origin).is_some_and(|page| host.is_some_and(|host| page == *host))
}

fn is_allowed(origin: &HeaderValue, allowed: &[String]) -> bool {
    allowed.iter().any(|allowed| origin.as_bytes().eq_ignore_ascii_case(allowed.as_bytes()))
}

/// Returns whether a text is an origin as browsers send it: a scheme, a host, an optional port, and no path.
pub(super) fn is_origin(text: &str) -> bool {
    HeaderValue::from_str(text).is_ok_and(|value| authority_of(&value).is_some())
}

/// The host and port of an origin. A page without an origin sends `null`.
fn authority_of(origin: &HeaderValue) -> Option<Authority> {
    let origin = origin.to_str().ok()?;
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"))?;
    rest.parse().ok().filter(|page: &Authority| !page.as_str().contains('@'))
}

fn is_localhost(authority: &Authority) -> bool {
    authority.host().eq_ignore_ascii_case("localhost")
}

fn ip_of(authority: &Authority) -> Option<IpAddr> {
    authority.host().trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn refused(header: &HeaderName, value: &HeaderValue) -> Refusal {
    let value = String::from_utf8_lossy(value.as_bytes());
    Refusal::forbidden(format!(
        "the header {header} says {value:?}, which is not this server, and it takes nothing from pages of \
         elsewhere: ask it as localhost or by its address, or name the page in http.allowed_origins"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_let_in(headers: &[(HeaderName, &str)]) -> bool {
        let value = |value: &str| HeaderValue::from_str(value).unwrap();
        let mut all = HeaderMap::new();
        for (name, text) in headers {
            all.append(name, value(text));
        }
        check(&all, Some(&User::everybody()), &[]).is_ok()
    }

    #[test]
    fn an_origin_that_is_allowed_comes_in_and_no_other() {
        let allowed = ["https://app.test:8443".to_owned()];
        let from = |origin: &str| {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_str(origin).unwrap())]);
            check(&headers, None, &allowed).is_ok()
        };
        assert!(from("https://app.test:8443") && from("https://APP.test:8443"));
        for other in ["https://app.test", "http://app.test:8443", "https://app.test:84430"] {
            assert!(!from(other), "{other}");
        }
    }

    #[test]
    fn an_origin_has_a_scheme_and_a_host_and_nothing_else() {
        for origin in ["https://a.test", "http://10.0.0.7:80", "http://[::1]"] {
            assert!(is_origin(origin), "{origin}");
        }
        for other in ["a.test", "*", "null", "", "https://", "https://a.test/", "https://u@a.test"]
        {
            assert!(!is_origin(other), "{other}");
        }
    }

    #[test]
    fn a_host_is_localhost_or_an_address() {
        assert!(is_let_in(&[]), "programs that speak HTTP/1.0 say none");
        for host in ["localhost", "LocalHost:7380", "127.0.0.1:7380", "[::1]:7380", "10.0.0.7"] {
            assert!(is_let_in(&[(HOST, host)]), "{host}");
        }
        for host in ["elsewhere.test:7380", "localhost.elsewhere.test", "127.0.0.1.test", "", "a b"]
        {
            assert!(!is_let_in(&[(HOST, host)]), "{host}");
            assert!(!is_let_in(&[(HOST, "localhost"), (HOST, host)]), "{host} behind another");
        }
    }

    #[test]
    fn what_has_no_origin_is_of_no_other_site() {
        for site in ["none", "same-origin", "same-site"] {
            assert!(is_let_in(&[(SITE, site)]), "{site}");
        }
        assert!(!is_let_in(&[(SITE, "cross-site")]));
        assert!(!is_let_in(&[(SITE, "none"), (SITE, "Cross-Site")]));
        let page = (ORIGIN, "http://127.0.0.1:3000");
        assert!(is_let_in(&[page, (SITE, "cross-site")]), "asked for as localhost");
    }

    #[test]
    fn an_origin_is_of_this_machine_or_of_this_server() {
        let from = |origin| is_let_in(&[(HOST, "10.0.0.7:7380"), (ORIGIN, origin)]);
        for origin in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"] {
            assert!(from(origin), "{origin}");
        }
        assert!(from("http://10.0.0.7:7380"));
        for origin in
            ["https://elsewhere.test", "http://10.0.0.7", "http://10.0.0.8:7380", "null", ""]
        {
            assert!(!from(origin), "{origin}");
        }
        assert!(!is_let_in(&[(ORIGIN, "http://localhost"), (ORIGIN, "http://elsewhere.test")]));
        assert!(!is_let_in(&[(HOST, "elsewhere.test"), (ORIGIN, "http://elsewhere.test")]));
    }
}
