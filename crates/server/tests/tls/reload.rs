//! Certificate reload on a running server: existing connections continue, and new ones get the new
//! certificate.

use crate::papers::Authority;
use crate::support::Ours;
use crate::world::{Caller, certificate_of, tls, until};
use mainstay_server::resp;

#[test]
fn new_files_are_for_new_connections() {
    let authority = Authority::new();
    let used = authority.sign("used");
    let newer = authority.sign("newer");
    let tls = tls(&used.settings());
    let ours = Ours::with_tls(resp::Settings::default(), Some(tls.clone()));
    let caller = Caller::of(&authority);
    let first = certificate_of(&used);
    let (seen, mut old) = caller.meet(ours.address);
    assert_eq!(seen, first);

    assert!(!tls.reload().unwrap(), "nothing is new");
    used.become_like(&newer);
    assert_eq!(caller.meet(ours.address).0, first, "nobody has looked yet");
    assert!(tls.reload().unwrap());
    assert_eq!(caller.meet(ours.address).0, certificate_of(&newer));
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
    let first = certificate_of(&used);

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
    assert_eq!(caller.meet(ours.address).0, certificate_of(&newer));
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
    until("the new certificate", || caller.meet(ours.address).0 == certificate_of(&newer));
}
