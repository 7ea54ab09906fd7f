//! Our server and Redis with the same durability and the same keys.

use super::process::{Server, fsync};
use crate::context::{Context, Outcome};
use mainstay::Durability;
use std::net::SocketAddr;
use std::process::Command;
use tempfile::TempDir;

/// Both servers, running. They are declared first, so that they end before their directory is removed.
pub struct Pair {
    /// Our server.
    pub ours: Server,
    /// The Redis server.
    pub redis: Server,
    /// Name of Redis in the report.
    pub peer: String,
    _directory: TempDir,
}

impl Pair {
    /// Starts both and fills each.
    pub fn start(
        context: &Context,
        durability: Durability,
        fill: impl Fn(SocketAddr) -> Outcome<()>,
    ) -> Outcome<Pair> {
        let peer = format!("Redis {}, {}", redis_version()?, fsync(durability));
        let directory = context.directory("server")?;
        let mut ours = Server::ours(&directory.path().join("ours"), durability)?;
        let mut redis = Server::redis(&directory.path().join("redis"), durability)?;
        for server in [&mut ours, &mut redis] {
            server.wait()?;
            fill(server.address)?;
        }
        Ok(Pair { ours, redis, peer, _directory: directory })
    }

    /// Stops both in order.
    pub fn stop(self) -> Outcome<()> {
        self.ours.stop()?;
        self.redis.stop()
    }
}

/// The Redis version, because a ratio is meaningful only for a known version.
pub fn redis_version() -> Outcome<String> {
    let output = Command::new("redis-server").arg("--version").output().map_err(|error| {
        format!("redis-server cannot be started: {error}; install Redis 7 for this bench")
    })?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    version(&text).ok_or_else(|| format!("redis-server says of its version `{text}`").into())
}

fn version(text: &str) -> Option<String> {
    text.split_whitespace().find_map(|word| word.strip_prefix("v=")).map(String::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found() {
        let text = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64";
        assert_eq!(version(text).as_deref(), Some("7.0.15"));
        assert_eq!(version("Redis server"), None);
    }
}
