# The fast receiver: the same record, written by the same steps; Perl starts faster than Python.
#
#   perl -C0 receiver.pl FSYNC,CLOCK_GETTIME,EXIT_GROUP PYTHON RECEIVER.PY --agent NAME [--home FOLDER] [EVENT [PAYLOAD]]
#
# The numbers are those of system calls, which Perl cannot make by name without loading modules. Everything unusual is
# left to the receiver in Python: before anything is read, or with what was read.

BEGIN { $^W = 0; $SIG{__WARN__} = sub { } }  # the agent must see nothing
umask 077;
my ($fsync, $clock, $exit) = split /,/, shift @ARGV;
my @python = (shift @ARGV, "-I", "-S", shift @ARGV);
my @words = @ARGV;
my ($home, $agent, $tmux, $server, $boot, $cut, @rest);
hand_over() if $ENV{PERL5OPT};

while (@ARGV) {
    my $word = shift @ARGV;
    if ($word eq "--agent") { $agent = shift @ARGV }
    elsif ($word eq "--home") { $home = shift @ARGV }
    elsif ($word =~ /^-/ || @rest > 1) { hand_over() }
    else { push @rest, $word }
}
unshift @rest, undef if @rest == 1 && $rest[0] =~ /^[\[\{]/;
my ($event, $payload) = @rest;
my $via = defined $payload ? "argv" : "stdin";
$home ||= $ENV{HOLDFAST_HOME};
$home ||= "$ENV{XDG_STATE_HOME}/holdfast" if $ENV{XDG_STATE_HOME};
$home ||= "$ENV{HOME}/.local/state/holdfast" if $ENV{HOME};
my $cwd = readlink "/proc/self/cwd" or hand_over();
if ($ENV{TMUX}) { $ENV{TMUX} =~ /^(.+),(\d{1,9}),[^,]*\z/s or hand_over(); ($tmux, $server) = ($1, $2 + 0) }
hand_over() if ($home // "") !~ m{^/} || !defined $agent || length pack("p", "") != 8 || $cwd =~ / \(deleted\)\z/;
for ($agent, $event) { hand_over() if defined && !m{^[A-Za-z][ !\#-\[\]-~]{0,199}\z} }
for ($cwd, $tmux, $ENV{TMUX_PANE}) { hand_over() if defined && !m{^[ !\#-\[\]-~]{0,4096}\z} }

# Do everything that can fail before reading the input.
my $chance = "";
sysopen BOOT, "/proc/sys/kernel/random/boot_id", 0 and sysread BOOT, $boot, 64 or hand_over();
sysopen CHANCE, "/dev/urandom", 0 and sysread(CHANCE, $chance, 14) == 14 or hand_over();
-d "$home/spool" && sysopen SPOOL, "$home/spool", 04000 or hand_over();  # O_NONBLOCK
$boot =~ tr/-\n//d;

my $max = 1920 * 1024;
my ($body, $size) = defined $payload ? (substr($payload, 0, $max), length $payload) : read_input();
$cut ||= "size" if $size > $max;
my $ms = int(now(0) / 1000000);
my $name = sprintf "%s-%020d-%d-%s.evt", substr(lc $boot, 0, 16), now(7), $$, unpack "H8", $chance;
my $header = sprintf '{"v":1,"kind":"hook","id":"evt_%012x%s","agent":%s,"event":%s,"received_at":%d,"cwd":%s,'
    . '"pane":%s,"tmux":%s,"tmux_server":%s,"pid":%d,"ppid":%d,"truncated":%s,"cut":%s,"via":"%s"}',
    $ms, unpack("x4 H20", $chance), text($agent), text($event), $ms, text($cwd),
    text($ENV{TMUX_PANE}), text($tmux), $server // "null", $$, getppid, $cut ? $size : "null", text($cut), $via;
keep("$header\n$body") or hand_over_what_was_read();

# AF_UNIX, SOCK_DGRAM, MSG_DONTWAIT
socket POKE, 1, 2, 0 and send POKE, "spool", 0x40, pack "S Z*", 1, "$home/holdfast.sock" if -e "$home/holdfast.sock";
syscall $exit + 0, 0;
exit 0;

sub hand_over { alarm 0; exec { $python[0] } @python, @words or exit 0 }

# A child process passes the input on to Python.
sub hand_over_what_was_read {
    hand_over() if $via eq "argv";
    pipe AGAIN, INPUT or exit 0;
    my $child = fork;
    if (defined $child && !$child) { close AGAIN; syswrite INPUT, $body; exit 0 }
    close INPUT;
    open STDIN, "<&AGAIN" and hand_over();
    exit 0;
}

# Create exclusively (O_WRONLY, O_CREAT, O_EXCL), write, sync, rename, sync the folder: then the event is accepted.
sub keep {
    my ($record) = @_;
    my ($unfinished, $done) = ("$home/spool/.$name", 0);
    $SIG{ALRM} = sub { };
    $SIG{XFSZ} = "IGNORE";
    alarm 3;  # a disk that does not respond: the call fails, and Python tries another
    sysopen FILE, $unfinished, 0301, 0600 or return 0;
    while ($done < length $record) {
        my $wrote = syswrite FILE, $record, length($record) - $done, $done;
        if (!$wrote) { unlink $unfinished; return 0 }
        $done += $wrote;
    }
    if (syscall($fsync + 0, fileno FILE) != 0 || !rename $unfinished, "$home/spool/$name") {
        unlink $unfinished;
        return 0;
    }
    return syscall($fsync + 0, fileno SPOOL) == 0;
}

sub read_input {
    my ($end, $kept, $seen) = (now(7) + 2000000000, "", 0);
    $SIG{TERM} = $SIG{INT} = $SIG{HUP} = sub { $cut ||= "signal" };
    until ($cut) {
        my ($ready, $chunk, $left) = ("\1", "", ($end - now(7)) / 1000000000);
        my $found = select $ready, undef, undef, $left > 0 ? $left : 0;
        if ($found == 0) { $cut ||= "time"; last }
        next if $found < 0 && $! == 4;  # EINTR: a signal arrived
        my $got = sysread STDIN, $chunk, 65536;
        if (!defined $got) { $cut ||= "error"; last }
        last if !$got;
        $seen += $got;
        $kept .= substr $chunk, 0, $max - length $kept if length $kept < $max;
    }
    $SIG{TERM} = $SIG{INT} = $SIG{HUP} = "IGNORE";
    return ($kept, $seen);
}

# CLOCK_REALTIME is 0, CLOCK_BOOTTIME 7.
sub now {
    my $time = "\0" x 16;
    syscall($clock + 0, $_[0] + 0, $time) == 0 or hand_over();
    my ($seconds, $rest) = unpack "q q", $time;
    return $seconds * 1000000000 + $rest;
}

sub text { defined $_[0] && length $_[0] ? "\"$_[0]\"" : "null" }
