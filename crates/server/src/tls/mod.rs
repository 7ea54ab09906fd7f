//! TLS for both faces: certificates out of files, and out of newer files while connections go on.
//!
//! ```text
//!   certificate, key, client_ca --read--> material --checked--> configuration --> every new connection
//!            ^                                |
//!            |  SIGHUP, and every minute      +--> wrong: reported, and the one before is kept
//!            +------------------ watch
//! ```
//!
//! A connection keeps the configuration it was accepted with, so a reload disturbs nobody.

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

/// The first byte of every TLS connection. Whoever begins with another one does not speak TLS.
pub const FIRST_BYTE: u8 = 0x16;

/// What new connections are accepted with. Clones share it.
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
    /// Reads the files that the settings name; nothing when they name none.
    pub fn open(settings: &Settings) -> Result<Option<Tls>> {
        let Some(files) = settings.files()? else { return Ok(None) };
        let material = Material::read(&files)?;
        let config = material.config(settings.minimum_version)?;
        let current = RwLock::new(Current { material, config });
        let shared = Shared { settings: settings.clone(), current };
        Ok(Some(Tls { shared: Arc::new(shared) }))
    }

    /// What a connection that comes now is accepted with.
    pub fn config(&self) -> Arc<ServerConfig> {
        self.shared.current.read().config.clone()
    }

    /// How long a connection may take until it can be talked on.
    pub fn handshake_limit(&self) -> Duration {
        Duration::from_millis(self.shared.settings.handshake_limit_ms.max(1))
    }

    /// Looks at the files again; whether new ones were taken. What is wrong with them leaves
    /// everything as it was.
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

    /// Has the files looked at now and then, and when it is told to.
    pub fn watch(&self) -> std::io::Result<Watch> {
        let interval = Duration::from_millis(self.shared.settings.look_interval_ms.max(1));
        Watch::start(self.clone(), interval)
    }
}
