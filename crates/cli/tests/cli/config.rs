//! `config` and `serve --config`: precedence of sources, messages for invalid settings, and their effect on
//! the server.

use crate::program::{Done, Program};
use crate::served::Served;

impl Program {
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs with these environment variables.
    fn with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Done {
        let mut command = self.command(arguments);
        command.envs(variables.iter().copied());
        Done::of(command.output().unwrap())
    }
}

/// The line of a setting in the output of `config print`.
#[track_caller]
fn setting(printed: &str, start: &str) -> String {
    let found = printed.lines().find(|line| line.starts_with(start));
    found.unwrap_or_else(|| panic!("no {start} in {printed}")).to_owned()
}

#[test]
fn flags_go_before_the_environment_before_the_file_before_the_defaults() {
    let program = Program::new();
    let print = ["config", "print"];
    let line = |variables: &[(&str, &str)], arguments: &[&str]| {
        setting(&program.with(variables, arguments).ok(), "loops")
    };
    let variable = [("MAINSTAY_RESP__LOOPS", "4")];
    assert_eq!(line(&[], &print), "loops = 0 # default");
    program.write("mainstay.toml", "# ours\n[resp]\nloops = 3\n");
    assert_eq!(line(&[], &print), "loops = 3 # mainstay.toml:3");
    assert_eq!(line(&variable, &print), "loops = 4 # MAINSTAY_RESP__LOOPS");
    let flags = [&print[..], &["--set", "resp.loops=5"]].concat();
    assert_eq!(line(&variable, &flags), "loops = 5 # --set resp.loops");
    let defaults = [&flags[..], &["--defaults"]].concat();
    assert_eq!(line(&variable, &defaults), "loops = 0 # default");
}

#[test]
fn the_file_is_the_one_of_the_flag_else_of_the_variable_else_the_one_nearby() {
    let program = Program::new();
    for (name, loops) in [("mainstay.toml", 3), ("b.toml", 4), ("c.toml", 5)] {
        program.write(name, &format!("[resp]\nloops = {loops}\n"));
    }
    let variable = [("MAINSTAY_CONFIG", "b.toml")];
    let print = ["config", "print", "--config", "c.toml"];
    assert_eq!(setting(&program.with(&variable, &print).ok(), "loops"), "loops = 5 # c.toml:2");
    assert_eq!(
        setting(&program.with(&variable, &print[..2]).ok(), "loops"),
        "loops = 4 # b.toml:2"
    );
    let nearby = program.run(&print[..2]).ok();
    assert_eq!(setting(&nearby, "loops"), "loops = 3 # mainstay.toml:2");
    let said = program.with(&[("MAINSTAY_CONFIG", "gone.toml")], &["config", "check"]).error();
    assert!(said.contains("gone.toml: the file cannot be read"), "{said}");
}

#[test]
fn all_that_is_wrong_is_said_at_once_with_where_it_stands() {
    let program = Program::new();
    let file = "[resp]\nconections = 3\nworkers = \"many\"\nloops = 65\noutput_bytes = \"1 GiX\"\n\
        [http]\naddress = \"nowhere\"\nheader_limit_ms = \"soon\"\nscratch = 5\n\
        [database]\ndurability = \"fsync\"\nretention_ms = true\n\
        [[database.retention_classes]]\nprefx = \"x\"\n\
        [[database.retention_classes]]\nprefix = \"a\\u0000\"\nretention_ms = \"1 d\"\n\
        [[database.record_retention_classes]]\nprefix = \"b\\u0000\"\nretention_ms = \"2 d\"\n\
        [htp]\n";
    program.write("mainstay.toml", file);
    let variables = [("MAINSTAY_RESP__LOOP", "1"), ("MAINSTAY_HTTP__THREADS", "65")];
    let said = program.with(&variables, &["config", "check"]).error();
    let expected = [
        "mainstay.toml:2: there is no setting resp.conections; the nearest is resp.connections",
        "mainstay.toml:3: resp.workers wants a whole number, not \"many\"",
        "mainstay.toml:4: resp.loops has to be between 0 and 64, not 65",
        "mainstay.toml:5: resp.output_bytes wants bytes, or text such as \"64 MiB\", not \"1 GiX\"",
        "mainstay.toml:7: http.address: an address is HOST:PORT, such as 127.0.0.1:7379, not `nowhere`",
        "mainstay.toml:8: http.header_limit_ms wants milliseconds, or text such as \"30 s\" or \"7 d\", not \"soon\"",
        "mainstay.toml:9: http.scratch wants text in quotes, not 5",
        "mainstay.toml:11: database.durability: unknown variant `fsync`, expected one of `memory`, `interval`, `sync`",
        "mainstay.toml:12: database.retention_ms wants milliseconds, or text such as \"30 s\" or \"7 d\", not true",
        "mainstay.toml:14: there is no setting database.retention_classes.prefx; the nearest is database.retention_classes.prefix",
        "mainstay.toml:16: database.retention_classes.prefix: the name holds a NUL byte",
        "mainstay.toml:19: database.record_retention_classes.prefix: the name holds a NUL byte",
        "mainstay.toml:21: there is no setting htp; the nearest is http",
        "MAINSTAY_HTTP__THREADS: http.threads has to be between 1 and 64, not 65",
        "MAINSTAY_RESP__LOOP: there is no setting resp.loop; the nearest is resp.loops",
    ];
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said, expected.map(|line| format!("mainstay: {line}")));
}

#[test]
fn what_is_not_toml_and_flags_that_are_wrong_are_told_from_each_other() {
    let program = Program::new();
    program.write("a.toml", "[resp]\nloops = 2\nloops = \n[http\n");
    let said = program.run(&["config", "check", "a.toml"]).error();
    assert!(said.contains("a.toml:3: this is not TOML"), "{said}");
    assert!(said.contains("a.toml:4: this is not TOML"), "{said}");
    for (value, wrong) in [
        ("resp.loops=many", "--set resp.loops: resp.loops wants a whole number, not \"many\""),
        ("resp=5", "--set resp: resp is a table: write [resp]"),
        ("database.retention_classes=5", "is a list: write [[database.retention_classes]]"),
        ("loops", "--set wants TABLE.KEY=VALUE, not `loops`"),
    ] {
        let said = program.run(&["serve", "--set", value]).error();
        assert!(said.contains(wrong), "{said}");
    }
    let said = program.run(&["serve", "--resp", "nonsense"]).error();
    assert!(said.contains("--resp: resp.address: an address is HOST:PORT"), "{said}");
}

#[test]
fn settings_that_contradict_each_other_are_refused() {
    let said = Program::new().run(&["serve", "--http", "127.0.0.1:7379"]).error();
    assert!(said.contains("resp.address and http.address are both 127.0.0.1:7379"), "{said}");
    let said = Program::new().run(&["config", "print", "--http", "0.0.0.0:1"]).error();
    assert!(said.contains("0.0.0.0:1 can be reached from other machines"), "{said}");
}

#[test]
fn what_is_printed_is_in_order_and_says_the_same() {
    let program = Program::new();
    let file = "[server]\ndata = \"a \\\"b\\\"\"\n[resp.request]\nwords = 0x10\n[http]\nscratch = \"/s\"\n\
        [database]\nretention_ms = \"none\"\nsync_interval_ms = 1500\ncache_bytes = \"3 MB\"\n\
        durability = \"interval\"\n\
        [[database.retention_classes]]\nprefix = \"a/\"\nretention_ms = \"none\"\n\
        [[database.retention_classes]]\nprefix = \"b/\"\nretention_ms = \"1h 30m\"\n";
    program.write("mainstay.toml", file);
    let bare = |printed: String| -> Vec<String> {
        printed
            .lines()
            .map(|line| line.rsplit_once(" # ").map_or(line, |(line, _)| line).to_owned())
            .collect()
    };
    let printed = program.run(&["config", "print"]).ok();
    program.write("again.toml", &printed);
    let checked = program.run(&["config", "check", "again.toml"]).ok();
    assert!(checked.starts_with("again.toml is in order"), "{checked}");
    let again = program.run(&["config", "print", "--config", "again.toml"]).ok();
    assert_eq!(bare(printed), bare(again.clone()));
    for line in ["words = 16 ", "sync_interval_ms = \"1500 ms\" ", "retention_ms = \"90 m\" "] {
        setting(&again, line);
    }
    let json = program.run(&["config", "print", "-o", "json"]).ok();
    let origin = r#""words":{"origin":"mainstay.toml:4","value":16}"#;
    assert!(json.contains(origin), "{json}");
    assert!(json.contains(r#""prefix":{"origin":"mainstay.toml:16","value":"b/"}"#), "{json}");
}

#[test]
fn a_list_of_the_environment_takes_the_place_of_the_files() {
    let program = Program::new();
    program.write("mainstay.toml", "[[database.retention_classes]]\nprefix = \"a/\"\n");
    let list = "[{ prefix = \"b/\", retention_ms = \"2 d\" }]";
    let variable = [("MAINSTAY_DATABASE__RETENTION_CLASSES", list)];
    let printed = program.with(&variable, &["config", "print"]).ok();
    assert_eq!(printed.matches("\n[[database.retention_classes]]").count(), 1, "{printed}");
    setting(&printed, "prefix = \"b/\" # MAINSTAY_DATABASE__RETENTION_CLASSES");
    let none = [("MAINSTAY_DATABASE__RETENTION_CLASSES", "[]")];
    let printed = program.with(&none, &["config", "print"]).ok();
    assert!(printed.contains("\n# [[database.retention_classes]]"), "{printed}");
}

#[test]
fn text_that_looks_like_something_else_is_text_where_text_is_wanted() {
    let program = Program::new();
    let print = ["config", "print", "--data", "500"];
    setting(&program.run(&print).ok(), "data = \"500\" # --data");
    let said = program.run(&["cell", "list", "-o", "toml"]).error();
    assert!(said.contains("only `config print` writes TOML"), "{said}");
}

#[test]
fn the_limits_of_the_server_are_those_of_the_file() {
    let program = Program::new();
    let file = "[server]\ndata = \"here\"\n[resp]\naddress = \"127.0.0.1:0\"\nconnections = 3\n\
        [resp.request]\nline_bytes = 100\n[database]\ndurability = \"interval\"\n";
    program.write("mainstay.toml", file);
    let served = Served::start(&program, &[]);
    let held: Vec<_> = (0..3).map(|_| served.ask("PING")).collect();
    assert!(held.iter().all(|(_, said)| said == "+PONG\r\n"), "{held:?}");
    let (_, fourth) = served.ask("PING");
    assert_eq!(fourth, "-ERR max number of clients reached: resp.connections is the limit\r\n");
    drop(held);
    let said = served.ask_until_seated("CONFIG GET append*");
    assert!(said.contains("everysec"), "{said}");
    let long = served.ask_until_seated(&format!("PING {}", "x".repeat(100)));
    let expected =
        "-ERR Protocol error: too big inline request: resp.request.line_bytes is the limit";
    assert!(long.starts_with(expected), "{long}");
    assert!(program.path("here").join("DATABASE").exists());
}

#[test]
fn so_are_those_of_scans_of_the_feed_and_of_http() {
    let program = Program::new();
    let file = "[resp]\naddress = \"127.0.0.1:0\"\ncursors = 1\nfeed_changes = 2\n\
        [http]\nvalue_limit_bytes = 10\n";
    program.write("mainstay.toml", file);
    let served = Served::start(&program, &[]);
    for key in ["a", "b", "c"] {
        assert_eq!(served.ask(&format!("SET {key} 1")).1, "+OK\r\n");
    }
    assert!(served.ask("FEED.READ LIMIT 100").1.starts_with("*2\r\n"));
    for cursor in ["1", "2"] {
        let page = served.ask("SCAN 0 COUNT 1").1;
        assert!(page.starts_with(&format!("*2\r\n$1\r\n{cursor}\r\n")), "{page}");
    }
    assert_eq!(served.ask("SCAN 1 COUNT 1").1, "-ERR invalid cursor\r\n");
    let put = |value: &str| {
        let head = "PUT /v1/cells/a HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json";
        let length = value.len();
        served.ask_http(&format!("{head}\r\ncontent-length: {length}\r\n\r\n{value}"))
    };
    assert!(put("1234567890").starts_with("HTTP/1.1 200"));
    assert!(put("12345678901").starts_with("HTTP/1.1 413"));
}

#[test]
fn jobs_are_keys_where_a_setting_says_so() {
    for (shown, size) in [("true", ":1\r\n"), ("false", ":0\r\n")] {
        let program = Program::new();
        let file = "[resp]\naddress = \"127.0.0.1:0\"\n[jobs]\nshown_as_keys = ";
        program.write("mainstay.toml", &format!("{file}{shown}\n"));
        let served = Served::start(&program, &[]);
        served.ask("JOB.SUBMIT t a");
        assert_eq!(served.ask("DBSIZE").1, size);
        served.ask("FLUSHDB");
        assert_eq!(served.ask("JOB.GET t a").1 == "$-1\r\n", shown == "true");
    }
}

#[test]
fn the_limits_of_the_server_are_those_of_the_environment() {
    let program = Program::new();
    let variables =
        [("MAINSTAY_RESP__ADDRESS", "127.0.0.1:0"), ("MAINSTAY_RESP__CONNECTIONS", "1")];
    let served = Served::start(&program, &variables);
    let (_held, first) = served.ask("PING");
    let (_, second) = served.ask("PING");
    assert_eq!((first.as_str(), &second[..8]), ("+PONG\r\n", "-ERR max"));
}

#[test]
fn the_documentation_shows_all_settings_as_they_are() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let documented = std::fs::read_to_string(path).unwrap();
    let printed = Program::new().run(&["config", "print", "--defaults"]).ok();
    let wanted = format!("```toml\n{printed}```\n");
    assert!(documented.ends_with(&wanted), "put this at the end of {path}:\n\n{wanted}");
}

#[test]
fn an_archive_is_in_a_directory_or_in_a_bucket() {
    let program = Program::new();
    program.write("directory.toml", "[archive]\ndirectory = \"old\"\n");
    program.run(&["config", "check", "directory.toml"]).ok();
    let place = "url = \"s3://old/runs\"\nregion = \"somewhere\"";
    let plain = "endpoint = \"http://s3.example\"\nallow_http = true";
    program.write("bucket.toml", &format!("[archive]\n{place}\n{plain}\n"));
    let checked = program.run(&["config", "check", "bucket.toml"]);
    if cfg!(feature = "s3") {
        checked.ok();
    } else {
        let said = checked.error();
        assert!(said.contains("built without S3") && said.contains("--features s3"), "{said}");
        assert!(
            !said.contains("give its url"),
            "what belongs together is looked at together: {said}"
        );
    }
}
