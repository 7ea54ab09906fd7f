//! The reload thread, which checks the TLS files periodically.

use super::Tls;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// A handle to the reload thread, which ends when it is dropped.
pub struct Watch {
    nudges: Sender<()>,
}

impl Watch {
    pub(super) fn start(tls: Tls, interval: Duration) -> std::io::Result<Watch> {
        let (nudges, inbox) = channel();
        let thread = std::thread::Builder::new().name("mainstay-tls".to_owned());
        thread.spawn(move || look(&tls, interval, &inbox))?;
        Ok(Watch { nudges })
    }

    /// Makes the thread check the files at once, and log an error even if it was logged before.
    pub fn look_now(&self) {
        // The thread ends only with this handle, so the message cannot be lost.
        let _ = self.nudges.send(());
    }
}

fn look(tls: &Tls, interval: Duration, inbox: &Receiver<()>) {
    let mut said = None;
    loop {
        match inbox.recv_timeout(interval) {
            Ok(()) => said = None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let wrong = match tls.reload() {
            Ok(false) => None,
            Ok(true) => {
                tracing::info!("new connections get the new certificate");
                None
            }
            Err(error) => Some(error.message().to_owned()),
        };
        if let Some(wrong) = wrong.as_ref().filter(|_| wrong != said) {
            tracing::warn!("the TLS files were not taken, the ones before are kept: {wrong}");
        }
        said = wrong;
    }
}
