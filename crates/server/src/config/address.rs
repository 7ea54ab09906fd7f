//! Listen addresses.

use mainstay::{Code, Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};

/// A host and a port, such as `127.0.0.1:7379`. The host may be a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address(String);

impl Address {
    /// Parses an address.
    pub fn new(text: &str) -> Result<Address> {
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
            Some(_) => Ok(Address(text.to_owned())),
            None => Err(invalid(format!(
                "an address is HOST:PORT, such as 127.0.0.1:7379, not `{text}`"
            ))),
        }
    }

    /// Resolves the host name.
    pub fn resolve(&self) -> Result<SocketAddr> {
        let mut found = self
            .0
            .to_socket_addrs()
            .map_err(|error| invalid(format!("{self} is no address of this machine: {error}")))?;
        found.next().ok_or_else(|| invalid(format!("the name in {self} has no address")))
    }
}

fn invalid(message: String) -> Error {
    Error::new(Code::InvalidOption, message)
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address(address.to_string())
    }
}

impl TryFrom<String> for Address {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Address, String> {
        Address::new(&text).map_err(|error| error.message().to_owned())
    }
}

impl From<Address> for String {
    fn from(address: Address) -> String {
        address.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        for right in ["127.0.0.1:0", "localhost:7379", "[::1]:7379"] {
            assert!(Address::new(right).is_ok_and(|address| address.resolve().is_ok()), "{right}");
        }
        for wrong in ["", "7379", ":7379", "localhost", "127.0.0.1:99999", "host:port"] {
            assert!(Address::new(wrong).is_err(), "{wrong}");
        }
    }
}
