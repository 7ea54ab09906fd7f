//! Helpers that parse replies about jobs.

use crate::support::Client;

#[derive(Debug, PartialEq, Eq)]
pub struct Claimed {
    pub id: String,
    pub token: u64,
    pub data: Option<String>,
}

/// Returns the texts and numbers of a reply, without length prefixes.
pub fn parts(reply: &str) -> Vec<String> {
    let lines = reply.split(r"\r\n").filter(|line| !line.is_empty());
    let is_length =
        |line: &&str| line.starts_with('*') || (line.starts_with('$') && *line != "$-1");
    lines
        .filter(|line| !is_length(line))
        .map(|line| line.trim_start_matches(':').to_owned())
        .collect()
}

/// Parses the reply of a claim.
pub fn claimed(reply: &str) -> Option<Claimed> {
    if reply == r"$-1\r\n" {
        return None;
    }
    let parts = parts(reply);
    assert_eq!(parts.len(), 3, "{reply}");
    let data = (parts[2] != "$-1").then(|| parts[2].clone());
    Some(Claimed { id: parts[0].clone(), token: parts[1].parse().unwrap(), data })
}

/// Claims a job, and fails if none is available.
pub fn claim(client: &mut Client, line: &str) -> Claimed {
    let reply = client.line(line);
    claimed(&reply).unwrap_or_else(|| panic!("{line}: {reply}"))
}

/// Encodes a text as a bulk string.
pub fn text(text: &str) -> String {
    format!(r"${}\r\n{text}\r\n", text.len())
}
