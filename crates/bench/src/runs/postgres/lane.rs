//! Connections that one thread waits for.

use crate::context::Outcome;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Config, NoTls};

/// Some connections and the thread's own loop; nothing happens while nobody runs it.
pub struct Lane {
    /// What waits for all of them.
    pub runtime: Runtime,
    /// The connections.
    pub clients: Vec<Arc<Client>>,
}

impl Lane {
    /// Opens so many connections.
    pub fn connect(config: &Config, connections: usize) -> Outcome<Lane> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connect = |_| runtime.block_on(open(config));
        let clients = (0..connections).map(connect).collect::<Outcome<_>>()?;
        Ok(Lane { runtime, clients })
    }
}

async fn open(config: &Config) -> Outcome<Arc<Client>> {
    let (client, connection) = config.connect(NoTls).await?;
    // Whoever waits for an answer is told of a broken connection by that.
    tokio::spawn(async {
        let _ = connection.await;
    });
    Ok(Arc::new(client))
}
