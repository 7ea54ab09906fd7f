//! All commands on jobs and locks, with valid and invalid arguments.

use crate::speaker::{claim, claimed, parts, text};
use crate::support::{Client, Ours};

fn says(client: &mut Client, line: &str, wanted: &str) {
    let reply = client.line(line);
    assert_eq!(reply, wanted, "{line}");
}

fn begins(client: &mut Client, line: &str, wanted: &str) {
    let reply = client.line(line);
    assert!(reply.starts_with(wanted), "{line}: {reply}");
}

#[test]
fn a_job_goes_from_submit_to_done() {
    let ours = Ours::start();
    let mut client = ours.client();
    says(&mut client, "JOB.CLAIM email WORKER w1", r"$-1\r\n");
    says(&mut client, "JOB.SUBMIT email 1 DATA to:a PRIORITY 5", &text("pending"));
    says(&mut client, "JOB.SUBMIT email 2 DEPENDS 1", &text("blocked"));
    says(&mut client, "JOB.SUBMIT report 1 DEPENDS email/1,email/2", &text("blocked"));
    let one = claim(&mut client, "JOB.CLAIM email WORKER w1 LEASE 60000");
    assert_eq!((one.id.as_str(), one.data.as_deref()), ("1", Some("to:a")));
    assert_eq!(one.token, ours.db.revision(), "the token is the revision of the claim");
    says(&mut client, "JOB.CLAIM email WORKER w2", r"$-1\r\n");
    let token = one.token;
    says(&mut client, &format!("JOB.BEAT email 1 {token}"), r":1\r\n");
    says(&mut client, &format!("JOB.BEAT email 1 {token} LEASE 90000"), r":1\r\n");
    says(&mut client, &format!("JOB.STEP email 1 {token} 1 OF 2"), r":1\r\n");
    says(&mut client, "JOB.COUNT email STATE running", r":1\r\n");
    says(&mut client, &format!("JOB.DONE email 1 {token} RESULT sent"), &text("completed"));
    says(&mut client, &format!("JOB.DONE email 1 {token} RESULT sent"), &text("completed"));
    says(&mut client, "JOB.RESULT email 1", &text("sent"));
    says(&mut client, "JOB.DATA email 1", &text("to:a"));
    says(&mut client, "JOB.DATA email 2", r"$-1\r\n");
    let two = claim(&mut client, "JOB.CLAIM email WORKER w1");
    assert_eq!((two.id.as_str(), two.data), ("2", None));
    assert!(two.token > token);
    let line = format!("JOB.FAIL email 2 {} paper RETRY", two.token);
    says(&mut client, &line, &text("pending"));
    let again = claim(&mut client, "JOB.CLAIM email WORKER w1");
    says(&mut client, &format!("JOB.FAIL email 2 {} ink", again.token), &text("failed"));
    says(&mut client, "JOB.RETRY email 2", &text("pending"));
    says(&mut client, "JOB.CANCEL report 1", &text("cancelled"));
    says(&mut client, "JOB.CANCEL report 1", &text("cancelled"));
    says(&mut client, "JOB.COUNT email", r":2\r\n");
    says(&mut client, "JOB.SWEEP", r"*2\r\n:0\r\n:0\r\n");
}

#[test]
fn priorities_and_times_decide_what_comes_first() {
    let ours = Ours::start();
    let mut client = ours.client();
    for line in [
        "JOB.SUBMIT t low PRIORITY -1",
        "JOB.SUBMIT t first",
        "JOB.SUBMIT t second",
        "JOB.SUBMIT t high PRIORITY 9",
        "JOB.SUBMIT t past PRIORITY 8 RUNAT 1000",
        "JOB.SUBMIT t later PRIORITY 100 RUNAT 99999999999999",
    ] {
        says(&mut client, line, &text("pending"));
    }
    let mut order = Vec::new();
    while let Some(next) = claimed(&client.line("JOB.CLAIM t WORKER w")) {
        order.push(next.id);
    }
    assert_eq!(order, ["high", "past", "first", "second", "low"]);
}

#[test]
fn jobs_are_shown_listed_and_counted_now_and_as_they_were() {
    let ours = Ours::start();
    let mut client = ours.client();
    says(&mut client, "JOB.GET t a", r"$-1\r\n");
    says(&mut client, "JOB.LIST t", r"*2\r\n$-1\r\n*0\r\n");
    says(&mut client, "JOB.COUNT t", r":0\r\n");
    says(&mut client, "JOB.HISTORY t a", r"*0\r\n");
    assert_eq!(ours.db.revision(), 0, "looking writes nothing");
    for id in ["a", "b", "c"] {
        client.line(&format!("JOB.SUBMIT t {id}"));
    }
    let before = ours.db.revision();
    let one = claim(&mut client, "JOB.CLAIM t WORKER w1");
    client.line(&format!("JOB.FAIL t a {} no RETRY", one.token));
    let got = parts(&client.line("JOB.GET t a"));
    for pair in [["state", "pending"], ["task_id", "a"], ["retry_count", "1"], ["error", "no"]] {
        let at = got.iter().position(|part| part == pair[0]).expect(pair[0]);
        assert_eq!(got[at + 1], pair[1]);
    }
    let then = client.line(&format!("JOB.GET t a REV {}", one.token));
    assert!(then.contains("claimed") && then.contains("w1"), "{then}");
    let page = client.line("JOB.LIST t LIMIT 2");
    assert!(page.starts_with(&format!(r"*2\r\n{}*2\r\n*6\r\n{}", text("b"), text("a"))), "{page}");
    assert_eq!(parts(&page)[1..5], ["a", "pending", "$-1", "1"], "{page}");
    assert_eq!(parts(&page)[6], "no");
    let page = client.line("JOB.LIST t AFTER b");
    assert_eq!(parts(&page)[..3], ["$-1", "c", "pending"], "{page}");
    says(&mut client, "JOB.COUNT t STATE claimed", r":0\r\n");
    says(&mut client, &format!("JOB.COUNT t STATE claimed REV {}", one.token), r":1\r\n");
    says(&mut client, &format!("JOB.COUNT t STATE pending REV {before}"), r":3\r\n");
    let listed = parts(&client.line(&format!("JOB.LIST t STATE claimed REV {}", one.token)));
    assert_eq!(listed[1..4], ["a", "claimed", "w1"]);
    let history = client.line("JOB.HISTORY t a");
    let states: Vec<_> = parts(&history).chunks(7).map(|row| row[1].clone()).collect();
    assert_eq!(states, ["pending", "claimed", "pending"]);
    let older = parts(&client.line("JOB.HISTORY t a LIMIT 1 BEFORE 3"));
    assert_eq!(older[..3], ["2", "claimed", "w1"]);
}

#[test]
fn whoever_lost_a_job_is_fenced_and_nothing_changes() {
    let ours = Ours::start();
    let mut first = ours.client();
    let mut second = ours.client();
    first.line("JOB.SUBMIT t a RETRIES 5");
    let lost = claim(&mut first, "JOB.CLAIM t WORKER w1 LEASE 1");
    // The lease expires by the clock, and then the sweep finds it.
    while second.line("JOB.SWEEP") != r"*2\r\n:1\r\n:0\r\n" {}
    let held = claim(&mut second, "JOB.CLAIM t WORKER w2");
    assert!(held.token > lost.token);
    let token = lost.token;
    for line in [
        format!("JOB.BEAT t a {token}"),
        format!("JOB.STEP t a {token} 1"),
        format!("JOB.DONE t a {token} RESULT mine"),
        format!("JOB.FAIL t a {token} no RETRY"),
        format!("JOB.DONE t b {token}"),
    ] {
        begins(&mut first, &line, "-FENCED ");
    }
    says(&mut second, &format!("JOB.DONE t a {} RESULT ours", held.token), &text("completed"));
    says(&mut first, "JOB.RESULT t a", &text("ours"));
    second.line("JOB.SUBMIT t c");
    let held = claim(&mut second, "JOB.CLAIM t WORKER w2");
    first.line("JOB.CANCEL t c");
    begins(&mut second, &format!("JOB.DONE t c {}", held.token), "-FENCED ");
}

#[test]
fn a_lock_has_one_holder_and_its_token_only_rises() {
    let ours = Ours::start();
    let mut one = ours.client();
    let mut two = ours.client();
    says(&mut one, "LOCK.GET nightly", r"$-1\r\n");
    let token = one.line("LOCK.TAKE nightly OWNER one LEASE 60000");
    assert_eq!(token, format!(r":{}\r\n", ours.db.revision()));
    let number = |reply: &str| reply[1..reply.len() - 4].parse::<u64>().unwrap();
    let token = number(&token);
    says(&mut two, "LOCK.TAKE nightly OWNER two LEASE 60000", r"$-1\r\n");
    says(&mut one, "LOCK.TAKE nightly OWNER one LEASE 60000", &format!(r":{token}\r\n"));
    says(&mut one, &format!("LOCK.RENEW nightly {token} LEASE 90000"), r":1\r\n");
    begins(&mut two, &format!("LOCK.RENEW nightly {} LEASE 1", token + 1), "-FENCED ");
    says(&mut two, &format!("LOCK.FREE nightly {}", token + 1), r":0\r\n");
    begins(&mut two, "LOCK.GET nightly", &format!(r"*3\r\n$3\r\none\r\n:{token}\r\n:"));
    says(&mut one, &format!("LOCK.FREE nightly {token}"), r":1\r\n");
    says(&mut one, &format!("LOCK.FREE nightly {token}"), r":0\r\n");
    begins(&mut one, &format!("LOCK.RENEW nightly {token} LEASE 5"), "-FENCED ");
    assert!(number(&two.line("LOCK.TAKE nightly OWNER two LEASE 60000")) > token);
}

#[test]
fn words_that_make_no_sense_are_told_so_and_nothing_is_written() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a");
    let token = claim(&mut client, "JOB.CLAIM t WORKER w").token;
    let revision = ours.db.revision();
    let huge = "x".repeat(201);
    for (line, wanted) in [
        ("JOB.SUBMIT t", "-ERR wrong number of arguments"),
        ("JOB.SUBMIT t a", "-EXISTS "),
        ("JOB.SUBMIT a.b c", "-INVALID "),
        (&format!("JOB.SUBMIT t {huge}"), "-INVALID "),
        ("JOB.SUBMIT t b DEPENDS none", "-INVALID "),
        ("JOB.SUBMIT t b DEPENDS b", "-INVALID "),
        ("JOB.SUBMIT t b DEPENDS a,a", "-INVALID "),
        ("JOB.SUBMIT t b PRIORITY x", "-ERR value is not an integer"),
        ("JOB.SUBMIT t b PRIORITY 9999999999", "-ERR value is not an integer"),
        ("JOB.SUBMIT t b TIMEOUT 0", "-INVALID "),
        ("JOB.SUBMIT t b RETRIES -1", "-ERR value is not an integer"),
        ("JOB.SUBMIT t b DATA", "-ERR syntax error"),
        ("JOB.SUBMIT t b WHAT 1", "-ERR syntax error"),
        ("JOB.CLAIM t", "-ERR wrong number of arguments"),
        ("JOB.CLAIM t NOBODY w", "-ERR syntax error"),
        ("JOB.CLAIM t WORKER w LEASE 0", "-INVALID "),
        ("JOB.CLAIM t WORKER w LEASE -5", "-ERR value is not an integer"),
        ("JOB.CLAIM a.b WORKER w", "-INVALID "),
        ("JOB.BEAT t a x", "-ERR value is not an integer"),
        ("JOB.BEAT t a 1 LEASE", "-ERR syntax error"),
        (&format!("JOB.BEAT t a {token} LEASE 0"), "-INVALID "),
        ("JOB.STEP t a 1", "-ERR wrong number of arguments"),
        (&format!("JOB.STEP t a {token} x"), "-ERR value is not an integer"),
        (&format!("JOB.FAIL t a {token} no NEVER"), "-ERR syntax error"),
        (&format!("JOB.FAIL t a {token} no RETRY AFTER 0"), "-INVALID "),
        (&format!("JOB.DONE t a {token} GAVE x"), "-ERR syntax error"),
        ("JOB.CANCEL t none", "-NOTFOUND "),
        ("JOB.RETRY t none", "-NOTFOUND "),
        ("JOB.RETRY t a", "-INVALID "),
        ("JOB.LIST t STATE done", "-INVALID "),
        ("JOB.LIST t LIMIT 0", "-INVALID "),
        ("JOB.LIST a.b", "-INVALID "),
        ("JOB.COUNT t LIMIT 1", "-ERR syntax error"),
        ("JOB.GET t a REV x", "-ERR value is not an integer"),
        ("JOB.GET t a REV 99999999", "-"),
        ("JOB.HISTORY t a WHAT", "-ERR syntax error"),
        ("JOB.SWEEP NOW", "-ERR syntax error"),
        ("LOCK.TAKE l OWNER o LEASE 0", "-INVALID "),
        ("LOCK.TAKE l o LEASE 5 x", "-ERR syntax error"),
        ("LOCK.RENEW l x LEASE 5", "-ERR value is not an integer"),
        ("LOCK.FREE l 5 x", "-ERR wrong number of arguments"),
    ] {
        begins(&mut client, line, wanted);
    }
    assert_eq!(ours.db.revision(), revision, "nothing was written");
    let large = "x".repeat(70_000);
    begins(&mut client, &format!("JOB.SUBMIT t b DATA {large}"), "-TOOLARGE ");
}

#[test]
fn commands_tell_of_themselves() {
    let ours = Ours::start();
    let mut client = ours.client();
    let docs = client.line("COMMAND DOCS job.claim lock.take");
    assert!(docs.contains("The next job of a type") && docs.contains("Takes a lock"), "{docs}");
    let info = client.line("COMMAND INFO job.submit");
    assert!(info.contains("job.submit") && info.contains("write"), "{info}");
}

#[test]
fn a_branch_has_its_own_jobs() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("JOB.SUBMIT t a");
    client.line("BRANCH.FORK trial");
    client.line("BRANCH.USE trial");
    client.line("JOB.SUBMIT t b");
    says(&mut client, "JOB.COUNT t STATE pending", r":2\r\n");
    let refused = client.line("JOB.CLAIM t WORKER w");
    assert!(refused.starts_with('-') && refused.contains("claim and sweep on `main`"), "{refused}");
    client.line("BRANCH.USE main");
    says(&mut client, "JOB.COUNT t STATE pending", r":1\r\n");
    assert_eq!(claim(&mut client, "JOB.CLAIM t WORKER w").id, "a");
}
