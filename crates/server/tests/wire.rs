//! RESP, byte by byte: Mainstay commands, bad input, pushes, limits, draining.

mod support;

use mainstay::wire::{
    self, AdminRequest, ReadOp, ReadReply, ReadRequest, TransactionReply, TransactionRequest,
};
use mainstay::{At, CellCommand, Name, RecordCommand, RecordPick, RecordWrite, Transaction};
use mainstay_server::resp::Settings;
use std::time::Duration;
use support::{Ours, encode};

#[test]
fn cells_answer_as_written_down() {
    let ours = Ours::start();
    let mut client = ours.client();
    let cases = [
        ("CELL.INIT a 1", r":1\r\n"),
        ("CELL.INIT a 2", r":1\r\n"),
        ("CELL.GET a", r"$1\r\n1\r\n"),
        ("CELL.CAS a 1 x", r":2\r\n"),
        ("CELL.CAS a 1 y", r"$-1\r\n"),
        ("CELL.CAS b NIL 7 JSON", r":1\r\n"),
        ("CELL.INCR b 3", r"*2\r\n$2\r\n10\r\n:2\r\n"),
        ("CELL.INCR b 0.5", r"*2\r\n$4\r\n10.5\r\n:3\r\n"),
        ("CELL.INCR a", r"-INVALID `a` holds string, not a number\r\n"),
        ("CELL.DEL a IF 1", r":0\r\n"),
        ("CELL.DEL a IF 2", r":1\r\n"),
        ("CELL.GET a", r"$-1\r\n"),
        ("CELL.LIST PREFIX b", r"*1\r\n$1\r\nb\r\n"),
        ("CELL.LIST LIMIT 0", r"-INVALID"),
        ("CELL.SET c 1 TTL 100000", r":1\r\n"),
        ("CELL.SET c 1 TTL 0", r"-INVALID"),
        ("CELL.SET c {x JSON", r"-INVALID this is not JSON"),
        ("CELL.SET c 1 BOGUS", r"-ERR syntax error\r\n"),
        ("CELL.GET a REV 1", r"$1\r\n1\r\n"),
        ("CELL.GET a REV 99999", r"-INVALID"),
        ("REVISION", r":7\r\n"),
    ];
    for (line, expected) in cases {
        let reply = client.line(line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
    }
    let history = client.line("CELL.HISTORY a LIMIT 2");
    assert!(history.starts_with(r"*2\r\n*4\r\n:3\r\n$-1\r\n:"), "{history}");
}

#[test]
fn branches_tags_and_merges_answer_as_written_down() {
    let ours = Ours::start();
    let mut main = ours.client();
    let mut side = ours.client();
    main.line("SET a 1");
    assert_eq!(main.line("BRANCH.FORK side"), r":1\r\n");
    assert!(main.line("BRANCH.FORK side").starts_with("-EXISTS "));
    assert!(side.line("BRANCH.USE nowhere").starts_with("-NOTFOUND "));
    assert_eq!(side.line("BRANCH.USE side"), r"+OK\r\n");
    assert_eq!(side.line("SET a 2"), r"+OK\r\n");
    assert_eq!(
        (main.line("GET a"), side.line("GET a")),
        (r"$1\r\n1\r\n".into(), r"$1\r\n2\r\n".into())
    );
    assert_eq!(main.line("BRANCH.LIST"), r"*2\r\n$4\r\nmain\r\n$4\r\nside\r\n");
    assert_eq!(
        main.line("BRANCH.DIFF main side"),
        r"*1\r\n*3\r\n$5\r\ncells\r\n$1\r\na\r\n$1\r\nb\r\n"
    );
    main.line("SET a 3");
    assert_eq!(main.line("BRANCH.MERGE side main"), r"-CONFLICT a\r\n");
    assert!(main.line("BRANCH.MERGE side main THEIRS").starts_with(':'));
    assert_eq!(main.line("GET a"), r"$1\r\n2\r\n");
    assert!(main.line("BRANCH.INFO side").contains(r#"\"parent\":\"main\""#));
    assert!(main.line("TAG.SET v1").starts_with(':'));
    assert!(main.line("TAG.SET v1").starts_with("-EXISTS "));
    assert!(main.line("TAG.LIST").starts_with(r"*1\r\n*3\r\n$2\r\nv1\r\n$4\r\nmain\r\n:"));
    assert_eq!(
        (main.line("TAG.DEL v1"), main.line("TAG.DEL v1")),
        (r":1\r\n".into(), r":0\r\n".into())
    );
    assert_eq!(main.line("BRANCH.DELETE side"), r":1\r\n");
    assert_eq!(main.line("BRANCH.DELETE side"), r":0\r\n");
    assert!(side.line("SET a 4").starts_with("-NOTFOUND "));
}

#[test]
fn a_transaction_sees_its_own_writes_and_loses_to_who_was_first() {
    let ours = Ours::start();
    let mut one = ours.client();
    let mut other = ours.client();
    assert!(one.line("TXN.COMMIT").starts_with("-ERR no transaction is open"));
    assert_eq!(one.line("TXN.BEGIN"), r"+OK\r\n");
    assert!(one.line("TXN.BEGIN").starts_with("-ERR "));
    assert!(one.line("MULTI").starts_with("-ERR "));
    assert_eq!(one.line("INCR n"), r":1\r\n");
    assert_eq!(
        (one.line("GET n"), other.line("GET n")),
        (r"$1\r\n1\r\n".into(), r"$-1\r\n".into())
    );
    other.line("SET n 10");
    assert!(one.line("TXN.COMMIT").starts_with("-CONFLICT "));
    assert_eq!(one.line("GET n"), r"$2\r\n10\r\n");
    one.line("TXN.BEGIN");
    one.line("APPEND n x");
    assert_eq!(one.line("TXN.ROLLBACK"), r"+OK\r\n");
    one.line("TXN.BEGIN");
    one.line("INCR n");
    assert_eq!(one.line("TXN.COMMIT"), r":2\r\n");
    assert_eq!(other.line("GET n"), r"$2\r\n11\r\n");
}

#[test]
fn what_may_not_stand_in_a_transaction_is_refused() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("MULTI");
    for line in
        ["BRANCH.USE main", "DURABILITY SYNC", "BRANCH.FORK x", "TAG.LIST", "FEED.READ WAIT 5"]
    {
        assert!(client.line(line).starts_with("-ERR "), "{line}");
    }
    assert!(client.line("EXEC").starts_with("-EXECABORT "));
    client.line("TXN.BEGIN");
    for line in ["BRANCH.USE main", "DURABILITY SYNC", "BRANCH.FORK x", "FEED.READ WAIT 5"] {
        assert!(client.line(line).starts_with("-ERR "), "{line}");
    }
}

#[test]
fn reads_inside_multi_see_what_came_before_them() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("CELL.SET a 1");
    for line in ["MULTI", "CELL.SET a 2", "CELL.GET a", "CELL.GET a REV 1", "CELL.LIST"] {
        client.line(line);
    }
    let expected = r"*4\r\n:2\r\n$1\r\n2\r\n$1\r\n1\r\n*1\r\n$1\r\na\r\n";
    assert_eq!(client.line("EXEC"), expected);
}

#[test]
fn changes_are_read_waited_for_and_pushed() {
    // The feed delivers only durable changes.
    let ours = Ours::with(Settings::default());
    let mut writer = ours.client();
    let mut reader = ours.client();
    let mut watcher = ours.client();
    writer.line("MSET a 1 b 2");
    let read = reader.line("FEED.READ LIMIT 1");
    assert!(read.starts_with(r"*2\r\n*6\r\n:1\r\n"), "a transaction is never cut: {read}");
    assert_eq!(reader.line("FEED.READ AFTER 1"), r"*0\r\n");
    assert_eq!(reader.line("FEED.READ AFTER 1 WAIT 1"), r"*0\r\n");
    assert!(watcher.line("FEED.WATCH").starts_with("-ERR FEED.WATCH pushes"));
    watcher.line("HELLO 3");
    assert_eq!(watcher.line("FEED.WATCH PREFIX c"), r"+OK\r\n");
    reader.send(&["FEED.READ", "AFTER", "1", "WAIT", "60000"]);
    writer.line("SET c 3");
    let waited = reader.receive();
    assert!(waited.contains(r"$1\r\nc\r\n$3\r\nset\r\n"), "{waited}");
    let pushed = watcher.receive();
    assert!(pushed.starts_with(r">2\r\n$4\r\nfeed\r\n*6\r\n:2\r\n"), "{pushed}");
    // Requests are still answered between the pushes.
    assert_eq!(watcher.line("PING"), r"+PONG\r\n");
}

#[test]
fn bad_input_ends_its_own_connection_and_no_other() {
    let ours = Ours::start();
    let mut good = ours.client();
    let deep = "*1\r\n".repeat(10_000);
    let cases: [(&[u8], &str); 8] = [
        (b"*1\r\n$1000000000\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1000000000\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length"),
        (deep.as_bytes(), r"-ERR Protocol error: expected \'$\', got \'*\'"),
        (b"*2\r\n$3\r\nGET\r\n$1\r\nabc\r\n", "-ERR Protocol error"),
        (b"\"unbalanced\r\n", "-ERR Protocol error: unbalanced quotes"),
        (&[b'x'; 70_000], "-ERR Protocol error: too big inline request"),
        (b"\xff\xfe\x00\x01\r\n", "-ERR unknown command"),
    ];
    for (bytes, expected) in cases {
        let mut client = ours.client();
        client.send_bytes(bytes);
        let reply = client.receive();
        assert!(reply.starts_with(expected), "{reply}");
        assert!(reply.contains("unknown command") || client.is_closed(), "{expected}");
        assert_eq!(good.line("PING"), r"+PONG\r\n");
    }
    drop(good);
    let mut half = ours.client();
    half.send_bytes(b"*2\r\n$3\r\nGET\r\n$10\r\nabc");
    drop(half);
    assert_eq!(ours.client().line("PING"), r"+PONG\r\n");
}

#[test]
fn a_request_may_come_in_any_pieces() {
    let ours = Ours::start();
    let mut client = ours.client();
    let bytes = encode(&["SET", "a", "in pieces"]);
    for piece in bytes.chunks(3) {
        client.send_bytes(piece);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(client.receive(), r"+OK\r\n");
    let large = vec![b'v'; 3 << 20];
    assert_eq!(client.call(&[b"SET".as_slice(), b"large", &large]), r"+OK\r\n");
    assert_eq!(client.line("STRLEN large"), format!(r":{}\r\n", large.len()));
    assert_eq!(client.line("GET large").len(), large.len() + r"$3145728\r\n\r\n".len());
    // Typed lines, with quotes, and an empty line.
    client.send_bytes(b"\r\nset  'a b'  \"\\x41\"\r\nGET 'a b'\n");
    assert_eq!((client.receive(), client.receive()), (r"+OK\r\n".into(), r"$1\r\nA\r\n".into()));
}

#[test]
fn a_long_pipeline_with_waits_in_it_is_answered_in_order() {
    let ours = Ours::start();
    let mut client = ours.client();
    let mut bytes = Vec::new();
    for i in 0..3000 {
        bytes.extend(encode(&["INCR", "n"]));
        if i % 500 == 0 {
            // These commands wait until all earlier ones are done.
            bytes.extend(encode(&["WATCH", "n"]));
            bytes.extend(encode(&["UNWATCH"]));
            bytes.extend(encode(&["DBSIZE"]));
            bytes.extend(encode(&["REVISION"]));
        }
    }
    client.send_bytes(&bytes);
    for i in 0..3000 {
        assert_eq!(client.receive(), format!(r":{}\r\n", i + 1));
        if i % 500 == 0 {
            let replies: Vec<String> = (0..4).map(|_| client.receive()).collect();
            let revision = format!(r":{}\r\n", i + 1);
            assert_eq!(replies, [r"+OK\r\n", r"+OK\r\n", r":1\r\n", &revision]);
        }
    }
}

#[test]
fn what_a_connection_can_pile_up_is_bounded() {
    let ours = Ours::start();
    let mut client = ours.client();
    let watch: Vec<String> =
        std::iter::once("WATCH".to_owned()).chain((0..3000).map(|i| format!("k{i}"))).collect();
    assert_eq!(client.call(&watch), r"+OK\r\n");
    assert!(client.call(&watch).starts_with("-TOOLARGE "));
    client.line("UNWATCH");
    client.line("MULTI");
    let large = vec![b'v'; 16 << 20];
    let set = [b"SET".as_slice(), b"large", &large];
    for _ in 0..3 {
        assert_eq!(client.call(&set), r"+QUEUED\r\n");
    }
    assert!(client.call(&set).starts_with("-TOOLARGE "));
    assert!(client.line("EXEC").starts_with("-EXECABORT "));
    // Reads behind writes: more than one batch takes, each of which sees all earlier writes.
    let mut bytes = Vec::new();
    for i in 0..300 {
        bytes.extend(encode(&["SET", "n", &i.to_string()]));
        bytes.extend(encode(&["GET", "n"]));
        bytes.extend(encode(&["GET", "n"]));
    }
    client.send_bytes(&bytes);
    for i in 0..300 {
        let value = format!(r"${}\r\n{i}\r\n", i.to_string().len());
        let replies = [client.receive(), client.receive(), client.receive()];
        assert_eq!(replies, [r"+OK\r\n".to_owned(), value.clone(), value]);
    }
}

/// Data and the end of the connection may come as one event. The end must not be missed.
#[test]
fn who_asks_and_hangs_up_at_once_is_let_go() {
    let mut ours = Ours::start();
    for _ in 0..200 {
        let mut client = ours.client();
        client.send(&["PING"]);
    }
    let mut last = ours.client();
    while !last.line("INFO").contains(r"connected_clients:1\r\n") {}
    ours.stop();
}

#[test]
fn the_connection_commands_answer_as_clients_expect() {
    let ours = Ours::start();
    let mut client = ours.client();
    let cases = [
        ("SELECT 0", r"+OK\r\n"),
        ("SELECT 1", r"-ERR DB index is out of range\r\n"),
        ("AUTH secret", r"-ERR AUTH <password> called without any password"),
        ("HELLO 4", r"-NOPROTO unsupported protocol version\r\n"),
        ("CLIENT SETNAME me", r"+OK\r\n"),
        ("CLIENT GETNAME", r"$2\r\nme\r\n"),
        ("CLIENT SETINFO LIB-NAME x", r"+OK\r\n"),
        ("CLIENT INFO", r"$"),
        ("CLIENT NO-EVICT ON", r"+OK\r\n"),
        ("CLIENT BOGUS", r"-ERR unknown subcommand"),
        ("CONFIG GET appendfsync", r"*2\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n"),
        ("CONFIG SET a b", r"-ERR "),
        ("COMMAND COUNT", r":"),
        ("COMMAND INFO get", r"*1\r\n*10\r\n$3\r\nget\r\n:2\r\n"),
        ("RESET", r"+RESET\r\n"),
        ("CLIENT GETNAME", r"$-1\r\n"),
        ("DURABILITY SYNC", r"+OK\r\n"),
        ("DURABILITY NEVER", r"-ERR syntax error\r\n"),
        ("QUIT", r"+OK\r\n"),
    ];
    for (line, expected) in cases {
        let reply = client.line(line);
        assert!(reply.starts_with(expected), "{line}: {reply}");
    }
    assert!(client.is_closed());
    let mut third = ours.client();
    assert!(
        third.line("HELLO 3 SETNAME c").starts_with(r"%7\r\n$6\r\nserver\r\n$8\r\nmainstay\r\n")
    );
    assert_eq!(third.line("GET none"), r"_\r\n");
}

#[test]
fn more_connections_than_allowed_are_told_so() {
    let ours = Ours::with(Settings { connections: 2, ..Settings::default() });
    let mut one = ours.client();
    let mut two = ours.client();
    assert_eq!((one.line("PING"), two.line("PING")), (r"+PONG\r\n".into(), r"+PONG\r\n".into()));
    let mut three = ours.client();
    assert_eq!(
        three.receive(),
        r"-ERR max number of clients reached: resp.connections is the limit\r\n"
    );
    assert!(three.is_closed());
}

#[test]
fn stopping_answers_what_was_asked_and_then_hangs_up() {
    let mut ours = Ours::with(Settings::default());
    let mut client = ours.client();
    client.line("SET a 1");
    let mut idle = ours.client();
    idle.line("PING");
    ours.stop();
    assert!(client.is_closed() && idle.is_closed());
    assert_eq!(ours.db.cells().get("a").unwrap(), Some("1".into()));
}

/// A large value requested many times in one request: the total size of the reply is limited.
#[test]
fn answers_too_large_together_are_refused() {
    let ours = Ours::start();
    let mut client = ours.client();
    let value = vec![b'x'; 15 << 20];
    assert_eq!(client.call(&[b"SET".as_slice(), b"large", &value]), r"+OK\r\n");
    let ask = |count| std::iter::once("MGET").chain(std::iter::repeat_n("large", count));
    let refused = client.call(&ask(9).collect::<Vec<_>>());
    assert!(refused.starts_with("-TOOLARGE "), "{}", &refused[..refused.len().min(100)]);
    client.line("MULTI");
    client.line("SET other 1");
    assert!(client.call(&ask(9).collect::<Vec<_>>()).starts_with("+QUEUED"));
    assert!(client.line("EXEC").starts_with("-TOOLARGE "));
    assert_eq!(client.line("GET other"), r"$-1\r\n");
}

/// Unfinished requests and unread replies have a limit for all clients together.
#[test]
fn what_is_unfinished_or_unread_has_a_limit() {
    let ours = Ours::with(Settings { held_bytes: 4 << 20, ..Settings::default() });
    let mut busy = ours.client();
    let mut greedy = ours.client();
    greedy.send_or_end(b"*2\r\n$3\r\nGET\r\n$16000000\r\n");
    greedy.send_or_end(&[b'x'; 8 << 20]);
    assert!(greedy.receive_or_end().is_none_or(|reply| reply.starts_with("-UNAVAILABLE ")));
    assert!(greedy.is_closed());
    let value = vec![b'x'; 1 << 20];
    assert_eq!(busy.call(&[b"SET".as_slice(), b"large", &value]), r"+OK\r\n", "room is free again");
    let mut slow = ours.client();
    let words: Vec<&str> =
        std::iter::once("MGET").chain(std::iter::repeat_n("large", 64)).collect();
    slow.send(&words);
    assert!(slow.ends_early(1));
    assert_eq!(busy.line("PING"), r"+PONG\r\n");
}

/// A connection that waits for its own batches again and again does not delay the others on its loop.
#[test]
fn a_long_pipeline_of_transactions_holds_up_nobody() {
    let ours = Ours::with(Settings { loops: 1, ..Settings::default() });
    let mut busy = ours.client();
    let mut other = ours.client();
    let one = [encode(&["MULTI"]), encode(&["SET", "a", "1"]), encode(&["EXEC"])].concat();
    let all = [one.repeat(3_000), encode(&["SET", "last", "1"])].concat();
    let sender = std::thread::spawn(move || {
        busy.send_bytes(&all);
        busy
    });
    assert_ne!(other.line("SET begun 1"), "");
    let answered = (0..).take_while(|_| other.line("GET last") == r"$-1\r\n").count();
    assert!(answered > 5, "{answered}");
    drop(sender.join().unwrap());
}

/// A client that disconnects during a blocking read is removed at once, however long it wanted to wait.
#[test]
fn who_hangs_up_while_it_waits_is_let_go() {
    let ours = Ours::start();
    let mut watcher = ours.client();
    for _ in 0..8 {
        ours.client().send(&["FEED.READ", "AFTER", "0", "WAIT", "3600000"]);
    }
    let mut clients = || watcher.line("CLIENT LIST").matches("addr=").count();
    let gone = (0..6_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        clients() == 1
    });
    assert!(gone);
}

#[test]
fn a_history_too_large_for_one_answer_is_refused() {
    let ours = Ours::start();
    let mut client = ours.client();
    let value = vec![b'x'; 15 << 20];
    for _ in 0..9 {
        client.call(&[b"SET".as_slice(), b"large", &value]);
    }
    assert!(client.line("CELL.HISTORY large LIMIT 9").starts_with("-TOOLARGE "));
    assert!(client.line("CELL.HISTORY large LIMIT 8").starts_with(r"*8\r\n"));
}

/// Input that a web page makes a browser send is not executed as commands.
#[test]
fn http_is_turned_away() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.send_or_end(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET owned 1\r\n");
    assert!(client.receive().starts_with("-ERR this is the port of Redis clients"));
    assert!(client.is_closed());
    assert_eq!(ours.client().line("GET owned"), r"$-1\r\n");
}

#[test]
fn only_so_many_read_the_feed() {
    let ours = Ours::with(Settings { feed_readers: 2, ..Settings::default() });
    let mut one = ours.client();
    let mut two = ours.client();
    for client in [&mut one, &mut two] {
        client.line("HELLO 3");
        assert_eq!(client.line("FEED.WATCH"), r"+OK\r\n");
    }
    assert!(one.line("FEED.READ").starts_with("-UNAVAILABLE "));
    drop(two);
    let free = (0..6_000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        one.line("FEED.READ LIMIT 1").starts_with('*')
    });
    assert!(free, "whoever goes leaves its place");
}

#[test]
fn what_multi_keeps_and_what_it_refuses() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("SET a 1");
    for refused in
        ["FEED.READ", "FEED.WATCH", "TXN.BEGIN", "TXN.COMMIT", "BRANCH.USE main", "DURABILITY SYNC"]
    {
        client.line("MULTI");
        client.line("SET b 1");
        assert!(client.line(refused).starts_with("-ERR "), "{refused}");
        assert!(client.line("EXEC").starts_with("-EXECABORT"), "{refused}");
    }
    client.line("WATCH a");
    assert!(client.line("BRANCH.USE main").starts_with("-ERR something is watched"));
    assert!(client.line("FEED.READ LIMIT 0").starts_with("-INVALID "));
    assert!(client.call(&["CLIENT", "SETNAME", &"n".repeat(1 << 20)]).starts_with("-ERR names"));
}

/// Encodes an answer as a frame in a bulk string.
fn bulk(answer: impl serde::Serialize) -> String {
    let frame = wire::encode(&mainstay::Result::Ok(answer)).unwrap();
    let reply = [format!("${}\r\n", frame.len()).as_bytes(), &frame, b"\r\n"].concat();
    reply.escape_ascii().to_string()
}

/// A request behind a write on the same connection sees the write.
#[test]
fn frames_behind_a_write_see_it() {
    let ours = Ours::with(Settings::default());
    let mut client = ours.client();
    let branch = String::from("main");
    let at = At::Latest;
    let name = Name::new("a").unwrap();
    let set = Transaction::new().step(CellCommand::set(name.clone(), 7));
    let write = encode(&[b"WIRE.EXECUTE", &*wire::encode(&set).unwrap()]);
    let mut behind = |command: &str, frame: mainstay::Result<Vec<u8>>| {
        let request = encode(&[command.as_bytes(), &frame.unwrap()]);
        client.send_bytes(&[write.clone(), request].concat());
        assert!(client.receive().starts_with('$'));
        client.receive()
    };
    let viewed =
        behind("WIRE.RUN", wire::encode(&TransactionRequest::View { branch: branch.clone(), at }));
    assert_eq!(viewed, bulk(TransactionReply::Holds(1)));
    assert_eq!(behind("WIRE.ASK", wire::encode(&AdminRequest::Revision)), bulk(2_u64));
    let look = ReadRequest { branch: branch.clone(), at, read: ReadOp::Get { name } };
    let read = behind("WIRE.READ", wire::encode(&look));
    assert_eq!(read, bulk(ReadReply::Cell(ours.db.cells().get_versioned("a").unwrap())));
    let begun = behind("WIRE.RUN", wire::encode(&TransactionRequest::Begin { branch }));
    assert_eq!(begun, bulk(TransactionReply::Holds(4)));
}

/// A read request can contain a command on records, but not one that writes.
#[test]
fn a_command_that_writes_is_no_read() {
    let ours = Ours::start();
    let mut client = ours.client();
    client.line("HSET r f 1");
    let key = || Name::new("r").unwrap();
    let write = RecordWrite::to("r").unwrap().set("f", "2").unwrap();
    let pick = RecordPick::under("r", Vec::new()).set("f", "2").unwrap();
    for command in [
        RecordCommand::Write(Box::new(write)),
        RecordCommand::Pick(Box::new(pick)),
        RecordCommand::Delete { key: key(), when: Vec::new() },
        RecordCommand::Restore { key: key(), fields: None, counter: 9, expires: None },
    ] {
        for at in [At::Latest, At::Revision(1)] {
            let read = ReadOp::Records(command.clone());
            let look = ReadRequest { branch: "main".into(), at, read };
            let reply = client.call(&[b"WIRE.READ".to_vec(), wire::encode(&look).unwrap()]);
            assert!(reply.contains("execute it in a transaction"), "{command:?}: {reply}");
        }
    }
    assert_eq!(
        (client.line("HGET r f"), client.line("REVISION")),
        (r"$1\r\n1\r\n".into(), r":1\r\n".into())
    );
}
