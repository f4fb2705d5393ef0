//! Files that are made to break whoever reads them: the server goes on, the child is gone, and the answer says why.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::documents::{Letters, Part, deflate, docx, docx_of, pdf, pdf_of, pptx, xlsx_of, zip, zlib};
use crate::process::Server;

/// What a file may be answered with: it was read within its limits, or one of these.
const CODES: [&str; 6] = [
    "unsupported_document",
    "document_encrypted",
    "document_broken",
    "document_too_large",
    "document_empty",
    "document_too_costly",
];

/// Numbers without end that are the same each time.
struct Dice(u64);

impl Dice {
    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut next = || {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 as u8
        };
        (0..count).map(|_| next()).collect()
    }
}

type Files = Vec<(String, Vec<u8>)>;

fn put(files: &mut Files, name: &str, bytes: impl Into<Vec<u8>>) {
    files.push((name.to_owned(), bytes.into()));
}

/// What unpacks to 128 MiB of one letter.
fn bomb(letter: u8) -> Vec<u8> {
    use flate2::{Compress, Compression, FlushCompress};
    let (mut compress, block) = (Compress::new(Compression::fast(), false), vec![letter; 1 << 20]);
    let mut once = Vec::with_capacity(1 << 20);
    compress.compress_vec(&block, &mut once, FlushCompress::Full).expect("memory");
    let mut bomb = once.repeat(128);
    bomb.extend([0x01, 0x00, 0x00, 0xff, 0xff]);
    bomb
}

fn archives(files: &mut Files) {
    let good = docx("T", &["# Hello", "A whole document."]);
    for tenth in 1..10 {
        put(files, "cut.docx", &good[..good.len() * tenth / 10]);
    }
    let document = |change: &dyn Fn(&mut Part)| {
        let mut part = Part::new("word/document.xml", "<w:document><w:p><w:t>Hi</w:t></w:p></w:document>");
        change(&mut part);
        part
    };
    let plain = document(&|_| {});
    let mut one = |name: &str, change: &dyn Fn(&mut Part)| put(files, name, zip(&[document(change)]));
    one("encrypted.docx", &|part| part.flags = 1);
    one("method.docx", &|part| part.method = 99);
    one("lzma.docx", &|part| part.method = 14);
    one("liar.docx", &|part| part.size = 0xffff_fff0);
    one("bomb.docx", &|part| part.packed = bomb(b' '));
    one("garbage.docx", &|part| part.packed = Dice(7).bytes(500));
    one("empty.docx", &|part| part.packed.clear());
    let beside = |name: &str| Part::new(name, "x");
    for name in ["../../etc/passwd", "/etc/passwd", "..\\..\\windows", "a/../../b", "nul\0byte"] {
        put(files, "out.docx", zip(&[plain.clone(), beside(name)]));
    }
    let link = Part { mode: 0o120_777, ..Part::new("word/link", "/etc/passwd") };
    put(files, "link.docx", zip(&[plain.clone(), link]));
    put(
        files,
        "nested.zip",
        zip(&[Part::new("inner.docx", &good), Part::new("more.zip", zip(std::slice::from_ref(&plain)))]),
    );
    let many: Vec<Part> = (0..21_000).map(|n| Part { packed: Vec::new(), ..beside(&format!("word/{n}")) }).collect();
    put(files, "many.docx", zip(&many));
    let twice: Vec<Part> = vec![plain.clone(); 2_000];
    put(files, "twice.docx", zip(&twice));
    let mut lost = good.clone();
    let end = lost.len() - 6;
    lost[end..end + 4].fill(0xee);
    put(files, "lost.docx", lost);
    put(files, "only-end.docx", b"PK\x05\x06".repeat(50));
    let sheet_bomb = Part { packed: bomb(b'<'), ..Part::new("xl/worksheets/sheet1.xml", "x") };
    put(
        files,
        "bomb.xlsx",
        zip(&[Part::new("xl/workbook.xml", "<workbook/>"), Part { name: "xl/sharedStrings.xml".into(), ..sheet_bomb }]),
    );
}

fn markup(files: &mut Files) {
    let deep = "<w:p>".repeat(100_000);
    put(files, "deep.docx", docx_of("T", &deep));
    put(files, "deep.xlsx", xlsx_of("S", &"<row>".repeat(100_000), "<sst/>"));
    let laughs = "<!DOCTYPE lolz [<!ENTITY a \"ha\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;\"><!ENTITY c \"&b;&b;&b;&b;&b;&b;\">]>";
    let outside = "<!DOCTYPE x [<!ENTITY secret SYSTEM \"file:///etc/passwd\">]>";
    for kind in [laughs, outside] {
        let text = format!("{kind}<w:document><w:p><w:t>&c;&secret;</w:t></w:p></w:document>");
        put(files, "laughs.docx", zip(&[Part::new("word/document.xml", &text)]));
        put(
            files,
            "laughs.pptx",
            zip(&[Part::new("ppt/presentation.xml", "<p/>"), Part::new("ppt/slides/slide1.xml", &text)]),
        );
        put(files, "laughs.xlsx", xlsx_of("S", "<worksheet/>", &text));
    }
    put(files, "unclosed.docx", docx_of("T", "<w:p><w:t>Hello"));
    put(files, "closing.docx", docx_of("T", &"</w:p>".repeat(1_000)));
    put(files, "nul.docx", docx_of("T", "<w:p><w:t>a\0b</w:t></w:p>"));
    put(files, "bytes.docx", zip(&[Part::new("word/document.xml", Dice(3).bytes(9_000))]));
    let cells = "<row><c r=\"ZZZZZZ99999999\" t=\"s\"><v>99999999999</v></c><c r=\"1\" s=\"88\"><v>1e308</v></c></row>";
    put(files, "cells.xlsx", xlsx_of("S", cells, "<sst/>"));
    put(files, "rows.xlsx", xlsx_of("S", &"<row><c><v>1</v></c></row>".repeat(100_002), "<sst/>"));
    put(files, "quotes.pptx", pptx(&[("a\" b='", "<a:t x=\"><\">")]));
    put(files, "deep.html", format!("<html>{}", "<div>".repeat(400_000)));
    put(files, "comment.html", format!("<html><!-- {}", "x".repeat(1_000_000)));
    put(files, "tags.html", format!("<html>{}", "<a b=\"".repeat(300_000)));
    put(files, "entities.html", format!("<html>{}", "&#x110000;&zz;&".repeat(100_000)));
    put(files, "script.html", "<html><script>".repeat(100_000));
}

fn texts(files: &mut Files) {
    put(files, "deep.json", "[".repeat(1_000_000));
    put(files, "deeper.json", format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000)));
    put(files, "cut.json", "{\"a\": [1, 2, ");
    put(files, "numbers.json", format!("[{}1]", "1e999,".repeat(10_000)));
    put(files, "quote.csv", format!("a,b\n\"{}", "x,".repeat(2_000_000)));
    put(files, "wide.csv", format!("{}\n{}", "h,".repeat(500_000), "v,".repeat(500_000)));
    put(files, "nul.txt", "a\0b");
    put(files, "latin.txt", [0xff_u8, 0xc0, 0x80, 0xfe, 0x01].repeat(1_000));
    put(files, "half.txt", [0xff_u8, 0xfe, 0x41]);
    put(files, "surrogate.txt", [0xff_u8, 0xfe, 0x00, 0xd8, 0x00, 0xd8]);
    put(files, "bom.txt", [0xef_u8, 0xbb, 0xbf]);
    put(files, "nothing.txt", "");
    put(files, "blank.txt", " \n\t".repeat(10_000));
    put(files, "control.txt", "\u{1}\u{2}\u{1b}[31m".repeat(1_000));
    put(files, "word.txt", "a".repeat(3_000_000));
    put(files, "dots.txt", ".".repeat(1_000_000));
    put(files, "lines.md", "# \n".repeat(300_000));
    for (name, magic) in [
        ("p.png", &b"\x89PNG\r\n\x1a\n"[..]),
        ("p.jpg", b"\xff\xd8\xff\xe0"),
        ("s.wav", b"RIFF\0\0\0\0WAVE"),
        ("x.exe", b"MZ\0\0\0"),
        ("x", b"\x7fELF\x02"),
        ("x.gz", b"\x1f\x8b\x08"),
        ("x.rtf", b"{\\rtf1 hi}"),
        ("x.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
    ] {
        put(files, name, [magic, &Dice(9).bytes(200)].concat());
    }
    let package: Vec<u8> = "EncryptedPackage".encode_utf16().flat_map(u16::to_le_bytes).collect();
    put(files, "locked.docx", [b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".as_slice(), &package].concat());
}

fn pdfs(files: &mut Files) {
    let good = pdf("T", &["Hello there."], Letters::Plain);
    for part in [3, 5, 8] {
        put(files, "cut.pdf", &good[..good.len() * part / 10]);
    }
    let page = |resources: &str| {
        vec![
            (1, "<</Type/Catalog/Pages 2 0 R>>".to_owned()),
            (2, format!("<</Kids[3 0 R]/Resources<<{resources}>>>>")),
            (3, "<</Type/Page/Contents 4 0 R>>".to_owned()),
        ]
    };
    let font = "/Font<</F 5 0 R>>";
    let root = "/Root 1 0 R";
    put(files, "locked.pdf", pdf_of(&page(font), &[(4, b"BT ET".to_vec(), "")], false, "/Root 1 0 R/Encrypt 9 0 R"));
    put(files, "locked2.pdf", pdf_of(&page(font), &[(4, b"BT ET".to_vec(), "")], true, "/Root 1 0 R/Encrypt<</V 4>>"));
    let ring = vec![(1, "<</Type/Catalog/Pages 2 0 R>>".to_owned()), (2, "<</Kids[2 0 R 2 0 R 1 0 R]>>".to_owned())];
    put(files, "ring.pdf", pdf_of(&ring, &[], false, root));
    let references = vec![(1, "2 0 R".to_owned()), (2, "1 0 R".to_owned())];
    put(files, "refs.pdf", pdf_of(&references, &[], false, root));
    let form = (4, b"/X Do (x) Tj".repeat(50), "/Subtype/Form/Resources<</XObject<</X 4 0 R>>>>");
    put(files, "form.pdf", pdf_of(&page("/XObject<</X 4 0 R>>"), &[form], false, root));
    let deep = format!("1 0 obj {} endobj", "[".repeat(500_000));
    put(files, "deep.pdf", format!("%PDF-1.4 {deep}"));
    put(files, "dicts.pdf", format!("%PDF-1.4 1 0 obj {}", "<</A".repeat(300_000)));
    put(files, "brackets.pdf", format!("%PDF-1.4 1 0 obj {}", "(".repeat(1_000_000)));
    put(files, "objects.pdf", format!("%PDF-1.4 {}", "1 0 obj ".repeat(300_000)));
    put(files, "lengths.pdf", "%PDF-1.4 1 0 obj<</Length 99999999999999999999>>stream\nabc".to_owned());
    put(
        files,
        "packs.pdf",
        format!(
            "%PDF-1.4 {}",
            (1..3_000)
                .map(|n| format!("{n} 0 obj<</Type/ObjStm/N 99999999/First 0/Length 3>>stream\n1 0\nendstream endobj "))
                .collect::<String>()
        ),
    );
    let mut raw = b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj 2 0 obj<</Contents 4 0 R>>endobj 4 0 obj<</Filter/FlateDecode>>stream\n\x78\x01".to_vec();
    raw.extend(bomb(b' '));
    put(files, "bomb.pdf", raw);
    let ranges = "beginbfrange ".to_owned() + &"<0000> <ffffffff> <0041> ".repeat(20_000) + "endbfrange";
    let told = vec![(4, b"BT /F 1 Tf (x) Tj ET".to_vec(), ""), (6, ranges.into_bytes(), "")];
    let mut objects = page(font);
    objects.push((5, "<</Subtype/Type0/ToUnicode 6 0 R>>".to_owned()));
    put(files, "ranges.pdf", pdf_of(&objects, &told, false, root));
    let mut widths = page(font);
    widths.push((5, format!("<</Subtype/Type0/DescendantFonts[<</W[{}]>>]>>", "0 4294967295 5 ".repeat(50_000))));
    put(files, "widths.pdf", pdf_of(&widths, &[(4, b"BT /F 1 Tf (x) Tj ET".to_vec(), "")], false, root));
    let saves = vec![(
        4,
        [b"q ".repeat(1_000_000), b"BT /F 1e300 Tf 1e300 0 0 1e300 1e300 1e300 Tm (x) Tj (y) Tj ET".to_vec()].concat(),
        "",
    )];
    put(files, "saves.pdf", pdf_of(&page(font), &saves, false, root));
    put(files, "none.pdf", format!("%PDF-1.7\n{}", "not a pdf ".repeat(100)));
    put(files, "packed.pdf", [b"%PDF-1.4\n".as_slice(), &zlib(b"1 0 obj"), &deflate(b"endobj")].concat());
    for seed in 1..6 {
        let mut dice = Dice(seed);
        put(files, "dice.pdf", [b"%PDF-1.4\n1 0 obj <</Type/Catalog>>".as_slice(), &dice.bytes(3_000)].concat());
        put(files, "dice.docx", [b"PK\x03\x04".as_slice(), &dice.bytes(3_000)].concat());
    }
}

/// The processes that a server has started and that are still there, with the files they have open.
fn children(server: &Server) -> Vec<(u32, Vec<String>)> {
    let parent = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(')').next()?.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let open = |pid: u32| {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    pids.filter(|pid| parent(*pid) == Some(server.pid())).map(|pid| (pid, open(pid))).collect()
}

/// Sends a file; answers the status, the code of an error, and the body.
fn upload(server: &Server, name: &str, bytes: &[u8]) -> (u16, String, Value) {
    let mut stream = server.connect().expect("a connection");
    let head = format!(
        "POST /api/v1/knowledge?name={name} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/octet-stream\r\ncontent-length: {}\r\n\r\n",
        bytes.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(bytes).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let code = head.lines().find_map(|line| line.strip_prefix("x-recalld-code: ")).unwrap_or_default().to_owned();
    (status, code, serde_json::from_str(body).unwrap_or(Value::Null))
}

fn start() -> (tempfile::TempDir, Server) {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path(), &[("RECALLD_UPSTREAM", "builtin")]);
    (folder, server)
}

/// A hundred hostile files: the server lives, each is read within its limits or refused with a typed error, nothing of a refused one
/// is kept, and no child outlives it.
#[test]
fn a_hundred_hostile_files_break_nothing() {
    let (_folder, server) = start();
    let mut files = Files::new();
    archives(&mut files);
    markup(&mut files);
    texts(&mut files);
    pdfs(&mut files);
    assert!(files.len() >= 100, "{}", files.len());
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    let (mut kept, mut slowest) = (0, Duration::ZERO);
    for (at, (name, bytes)) in files.iter().enumerate() {
        let begun = Instant::now();
        let (status, code, body) = upload(&server, &format!("{at}-{name}"), bytes);
        let took = begun.elapsed();
        slowest = slowest.max(took);
        assert!(took < Duration::from_secs(10), "{name} took {took:?}");
        assert!(status == 201 || CODES.contains(&code.as_str()), "{name}: {status} {code} {body}");
        assert_eq!(children(&server), [], "{name} left a child behind");
        kept += usize::from(status == 201);
        *outcomes.entry(if status == 201 { "read within its limits".into() } else { code }).or_default() += 1;
    }
    println!("{} files, slowest {slowest:?}: {outcomes:?}", files.len());
    assert!(
        CODES.iter().filter(|code| **code != "document_too_costly").all(|code| outcomes.contains_key(*code)),
        "{outcomes:?}"
    );
    assert_eq!(server.send("GET", "/readyz", &[], "").0, 200);
    let (status, code, _) = upload(&server, "good.txt", b"The ferry leaves at noon.");
    assert_eq!((status, code.as_str()), (201, ""));
    let (_, found) = server.send("POST", "/api/v1/knowledge/search", &[], r#"{"query": "When does the ferry leave?"}"#);
    assert_eq!(found["passages"][0]["source"], "good.txt", "{found}");
    let mut listed = 0;
    let mut after = String::new();
    loop {
        let (_, page) = server.send("GET", &format!("/api/v1/knowledge?limit=50&after={after}"), &[], "");
        listed += page["documents"].as_array().map_or(0, Vec::len);
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(listed, kept + 1, "what was refused is not there");
}

/// While a file is read, the child has its input and output open, and nothing of the server's.
#[cfg(target_os = "linux")]
#[test]
fn a_child_inherits_nothing() {
    let (_folder, server) = start();
    let long: String = (0..400_000).map(|n| format!("word{n} ")).collect();
    let seen = std::thread::scope(|scope| {
        let sending = scope.spawn(|| upload(&server, "long.txt", long.as_bytes()));
        let mut seen: Vec<Vec<String>> = Vec::new();
        while !sending.is_finished() {
            seen.extend(children(&server).into_iter().map(|(_, open)| open).filter(|open| !open.is_empty()));
            std::thread::sleep(Duration::from_millis(2));
        }
        let (status, code, _) = sending.join().expect("an answer");
        assert!(status == 201 || CODES.contains(&code.as_str()), "{status} {code}");
        seen
    });
    // Before the program is loaded the child is still a copy of the server; what counts is how most of its life is.
    let clean = seen.iter().filter(|open| open.iter().all(|name| ["0", "1", "2"].contains(&name.as_str()))).count();
    assert!(clean > 3 && clean * 10 >= seen.len() * 9, "{clean} of {}: {:?}", seen.len(), seen.last());
    assert_eq!(seen.last().map(|open| open.len() <= 3), Some(true));
}
