use crate::world::World;
use serde_json::json;

const KEY: [(&str, &str); 1] = [("idempotency-key", "request-1")];

#[test]
fn a_repeated_put_writes_once_and_says_so() {
    let w = World::new();
    let first = w.ask("PUT", "/v1/cells/a", &KEY, "1").ok();
    let again = w.ask("PUT", "/v1/cells/a", &KEY, "1");
    assert_eq!(again.header("etag"), "\"1\"");
    let again = again.ok();
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
    for field in ["counter", "revision", "stamp"] {
        assert_eq!(first[field], again[field]);
    }
    assert_eq!(w.get("/v1/cells/a").ok()["counter"], 1);
}

#[test]
fn a_repeated_conditional_put_that_won_wins_again_without_writing() {
    let w = World::new();
    let headers = [("idempotency-key", "k"), ("if-none-match", "*")];
    w.ask("PUT", "/v1/cells/a", &headers, "1").ok();
    let again = w.ask("PUT", "/v1/cells/a", &headers, "1").ok();
    assert_eq!((again["repeated"].clone(), again["counter"].clone()), (json!(true), json!(1)));
}

#[test]
fn counting_deleting_and_forking_are_repeated_safely() {
    let w = World::new();
    let incr = || w.ask("POST", "/v1/incr/n", &[("idempotency-key", "i")], "").ok();
    assert_eq!((incr()["value"].clone(), incr()["value"].clone()), (json!(1), json!(1)));
    let delete = || w.ask("DELETE", "/v1/cells/n", &[("idempotency-key", "d")], "").ok();
    assert_eq!(
        (delete()["deleted"].clone(), delete()["deleted"].clone()),
        (json!(true), json!(true))
    );
    let fork = || w.ask("POST", "/v1/branches", &[("idempotency-key", "f")], r#"{"name":"side"}"#);
    assert_eq!(fork().ok()["repeated"], false);
    assert_eq!(fork().ok()["repeated"], true);
}

#[test]
fn a_repeated_transaction_gives_the_same_receipt() {
    let w = World::new();
    let body = r#"{"commands":[{"incr":{"name":"n"}},{"get":{"name":"n"}}]}"#;
    let mut first = w.ask("POST", "/v1/transactions", &KEY, body).ok();
    let again = w.ask("POST", "/v1/transactions", &KEY, body).ok();
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
    first["repeated"] = json!(true);
    assert_eq!(first, again);
    assert_eq!(w.get("/v1/cells/n").ok()["value"], 1);
}

#[test]
fn a_key_used_for_something_else_is_refused() {
    let w = World::new();
    w.ask("PUT", "/v1/cells/a", &KEY, "1").ok();
    assert_eq!(w.ask("PUT", "/v1/cells/a", &KEY, "2").code(), (422, "RequestReused".into()));
    let long = "k".repeat(65);
    let said = w.ask("PUT", "/v1/cells/a", &[("idempotency-key", &long)], "1");
    assert_eq!(said.code(), (400, "InvalidArgument".into()));
}
