//! Connections driven by one thread.

use crate::context::Outcome;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, Config, NoTls};

/// Connections and the runtime of one thread. The connections make progress only while the runtime runs.
pub struct Lane {
    /// The runtime of all its connections.
    pub runtime: Runtime,
    /// The connections.
    pub clients: Vec<Arc<Client>>,
}

impl Lane {
    /// Opens this many connections.
    pub fn connect(config: &Config, connections: usize) -> Outcome<Lane> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let clients =
            (0..connections).map(|_| runtime.block_on(open(config))).collect::<Outcome<_>>()?;
        Ok(Lane { runtime, clients })
    }
}

async fn open(config: &Config) -> Outcome<Arc<Client>> {
    let (client, connection) = config.connect(NoTls).await?;
    // A broken connection is reported to the callers that wait for an answer.
    tokio::spawn(async {
        let _ = connection.await;
    });
    Ok(Arc::new(client))
}
