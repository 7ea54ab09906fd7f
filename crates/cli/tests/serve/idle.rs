//! Many idle connections with TLS.

use crate::papers::Authority;
use crate::process::Process;
use crate::tls_world::Caller;
use std::ffi::OsStr;
use std::process::Stdio;

const IDLE: usize = 500;
/// The most memory of one connection. The measured value is about a third of it.
const LIMIT_BYTES: u64 = 48 << 10;

#[test]
fn hundreds_of_idle_connections() {
    let authority = Authority::new();
    let pair = authority.sign("server");
    let directory = tempfile::tempdir().unwrap();
    let flags: [&OsStr; 4] =
        ["--tls-cert".as_ref(), pair.certificate.as_ref(), "--tls-key".as_ref(), pair.key.as_ref()];
    let server = Process::serve_with(&directory.path().join("data"), &flags, Stdio::inherit());
    let caller = Caller::of(&authority);
    caller.meet(server.address);

    let before = server.memory_bytes();
    let mut idle: Vec<_> = (0..IDLE).map(|_| caller.meet(server.address).1).collect();
    let each = server.memory_bytes().saturating_sub(before) / IDLE as u64;
    println!("{each} bytes for each idle connection with TLS");
    assert!(each < LIMIT_BYTES, "{each} bytes for each idle connection");

    for client in &mut idle {
        assert_eq!(client.line("PING"), r"+PONG\r\n");
    }
}
