//! TLS for both front ends, with certificate reload while connections stay open.
//!
//! ```text
//!   certificate, key, client_ca --read--> material --checked--> configuration --> every new connection
//!            ^                                |
//!            |  SIGHUP, and every minute      +--> invalid: reported, and the old one is kept
//!            +------------------ watch
//! ```
//!
//! A connection keeps the configuration with which it was accepted, so a reload does not disturb open
//! connections.

mod material;
mod settings;
mod watch;

pub use mainstay::remote::tls::{pem, provider};
pub use settings::{Settings, Version};
pub use watch::Watch;

use mainstay::Result;
use material::Material;
use parking_lot::RwLock;
use rustls::ServerConfig;
use std::sync::Arc;
use std::time::Duration;

/// The first byte of every TLS connection. A client that starts with another byte does not use TLS.
pub const FIRST_BYTE: u8 = 0x16;

/// The TLS configuration for new connections. Clones share it.
#[derive(Clone)]
pub struct Tls {
    shared: Arc<Shared>,
}

struct Shared {
    settings: Settings,
    current: RwLock<Current>,
}

struct Current {
    material: Material,
    config: Arc<ServerConfig>,
}

impl Tls {
    /// Reads the files named in the settings. Returns `None` if no file is named.
    pub fn open(settings: &Settings) -> Result<Option<Tls>> {
        let Some(files) = settings.files()? else { return Ok(None) };
        let material = Material::read(&files)?;
        let config = material.config(settings.minimum_version)?;
        let current = RwLock::new(Current { material, config });
        let shared = Shared { settings: settings.clone(), current };
        Ok(Some(Tls { shared: Arc::new(shared) }))
    }

    /// Returns the configuration for a new connection.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.shared.current.read().config.clone()
    }

    /// Returns the time limit of the handshake.
    pub fn handshake_limit(&self) -> Duration {
        Duration::from_millis(self.shared.settings.handshake_limit_ms.max(1))
    }

    /// Reads the files again. Returns whether new ones took effect. If they are invalid, the old
    /// configuration is kept.
    pub fn reload(&self) -> Result<bool> {
        let Some(files) = self.shared.settings.files()? else { return Ok(false) };
        let material = Material::read(&files)?;
        if self.shared.current.read().material == material {
            return Ok(false);
        }
        let config = material.config(self.shared.settings.minimum_version)?;
        *self.shared.current.write() = Current { material, config };
        Ok(true)
    }

    /// Starts a thread that reloads the files periodically and on request.
    pub fn watch(&self) -> std::io::Result<Watch> {
        let interval = Duration::from_millis(self.shared.settings.look_interval_ms.max(1));
        Watch::start(self.clone(), interval)
    }
}
