//! Certificate reload by a signal to the program.

use crate::papers::{Authority, Pair, set_mode};
use crate::process::Process;
use crate::tls_world::{Caller, certificate_of, until};
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;

/// The program, with its stderr in a file.
struct Program {
    process: Process,
    complaints: PathBuf,
    _directory: tempfile::TempDir,
}

impl Program {
    fn serve(pair: &Pair) -> Program {
        let directory = tempfile::tempdir().unwrap();
        let complaints = directory.path().join("complaints");
        let flags = ["--tls-cert".as_ref(), pair.certificate.as_os_str()];
        let more: [&OsStr; 2] = ["--tls-key".as_ref(), pair.key.as_os_str()];
        let file = File::create(&complaints).unwrap();
        let all = [flags, more].concat();
        let process = Process::serve_with(&directory.path().join("data"), &all, file.into());
        Program { process, complaints, _directory: directory }
    }

    fn complained(&self) -> String {
        std::fs::read_to_string(&self.complaints).unwrap()
    }
}

#[test]
fn a_signal_has_the_program_look_again() {
    let authority = Authority::new();
    let used = authority.sign("used");
    let newer = authority.sign("newer");
    let program = Program::serve(&used);
    let caller = Caller::of(&authority);
    let address = program.process.address;
    let (first, mut old) = caller.meet(address);

    std::fs::write(&used.key, "nonsense").unwrap();
    program.process.hang_up();
    until("the complaint", || program.complained().contains("the ones before are kept"));
    assert!(program.complained().contains("used.key"), "{}", program.complained());
    assert_eq!(caller.meet(address).0, first);

    used.become_like(&newer);
    program.process.hang_up();
    until("the new certificate", || caller.meet(address).0 == certificate_of(&newer));
    assert_eq!(old.line("PING"), r"+PONG\r\n");

    program.process.terminate();
    assert!(program.process.ended().success());
}

#[test]
fn a_key_that_others_can_read_is_complained_of() {
    let authority = Authority::new();
    let pair = authority.sign("server");
    let complained = Program::serve(&pair).complained();
    assert!(!complained.contains("WARN"), "{complained}");
    set_mode(&pair.key, 0o604);
    let complained = Program::serve(&pair).complained();
    assert!(
        complained.contains("WARN")
            && complained.contains("can read the key")
            && complained.contains("chmod 600")
    );
}
