//! The scratch directory of a real server.

use crate::process::Process;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

#[test]
fn what_a_killed_server_left_is_gone_and_nobody_else_gets_in() {
    let root = tempfile::tempdir().unwrap();
    let data = root.path().join("data");
    let server = Process::serve(&data);
    let left = data.join("scratch/mainstay-left");
    fs::create_dir(&left).unwrap();
    fs::write(left.join("backup"), "all that there is").unwrap();
    server.kill();
    server.ended();
    let server = Process::serve(&data);
    assert!(!left.exists());
    for place in [&data, &data.join("scratch")] {
        let mode = place.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700, "{}", place.display());
    }
    server.terminate();
    server.ended();
    let doctor = Command::new(env!("CARGO_BIN_EXE_mainstay")).arg("doctor").arg(&data).output();
    let doctor = doctor.unwrap();
    assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stdout));
}
