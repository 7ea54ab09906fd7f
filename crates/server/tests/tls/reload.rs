//! Certificate reload on a running server: existing connections continue, and new ones get the new
//! certificate.

use crate::papers::{Authority, Pair, set_mode};
use crate::support::Ours;
use crate::support::process::Process;
use crate::world::{Caller, certificates, tls};
use mainstay_server::resp;
use rustls::pki_types::CertificateDer;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);
const LOOKS: usize = 3_000;

/// Waits until a condition holds.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if is_so() {
            return;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("still waiting for {what}");
}

fn of(pair: &Pair) -> CertificateDer<'static> {
    certificates(&pair.certificate).remove(0)
}

#[test]
fn new_files_are_for_new_connections() {
    let authority = Authority::new();
    let used = authority.sign("used");
    let newer = authority.sign("newer");
    let tls = tls(&used.settings());
    let ours = Ours::with_tls(resp::Settings::default(), Some(tls.clone()));
    let caller = Caller::of(&authority);
    let first = of(&used);
    let (seen, mut old) = caller.meet(ours.address);
    assert_eq!(seen, first);

    assert!(!tls.reload().unwrap(), "nothing is new");
    used.become_like(&newer);
    assert_eq!(caller.meet(ours.address).0, first, "nobody has looked yet");
    assert!(tls.reload().unwrap());
    assert_eq!(caller.meet(ours.address).0, of(&newer));
    assert_eq!(old.line("PING"), r"+PONG\r\n");
}

#[test]
fn files_that_do_not_fit_are_refused_and_the_ones_before_kept() {
    let authority = Authority::new();
    let used = authority.sign("used");
    let newer = authority.sign("newer");
    let tls = tls(&used.settings());
    let ours = Ours::with_tls(resp::Settings::default(), Some(tls.clone()));
    let caller = Caller::of(&authority);
    let first = of(&used);

    // The certificate is new already, but its key is not.
    std::fs::copy(&newer.certificate, &used.certificate).unwrap();
    let said = tls.reload().unwrap_err().to_string();
    assert!(said.contains("used.pem") && said.contains("used.key"), "{said}");
    assert_eq!(caller.meet(ours.address).0, first);
    for wrong in ["", "-----BEGIN CERTIFICATE-----\nnonsense\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&used.certificate, wrong).unwrap();
        let said = tls.reload().unwrap_err().to_string();
        assert!(said.contains("used.pem"), "{said}");
    }
    std::fs::remove_file(&used.certificate).unwrap();
    assert!(tls.reload().unwrap_err().to_string().contains("could not be read"));
    assert_eq!(caller.meet(ours.address).0, first);

    used.become_like(&newer);
    assert!(tls.reload().unwrap());
    assert_eq!(caller.meet(ours.address).0, of(&newer));
}

#[test]
fn the_files_are_looked_at_now_and_then() {
    let authority = Authority::new();
    let used = authority.sign("used");
    let newer = authority.sign("newer");
    let mut settings = used.settings();
    settings.look_interval_ms = 10;
    let tls = tls(&settings);
    let ours = Ours::with_tls(resp::Settings::default(), Some(tls.clone()));
    let _watch = tls.watch().unwrap();
    let caller = Caller::of(&authority);
    used.become_like(&newer);
    until("the new certificate", || caller.meet(ours.address).0 == of(&newer));
}

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
    until("the new certificate", || caller.meet(address).0 == of(&newer));
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
