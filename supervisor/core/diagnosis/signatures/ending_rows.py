"""Signatures: what a program says last, by the words that any program uses.

No list has every message. But the last lines of a log that ends in a failure say so in
words that most programs share ("could not", "expected … but got", "Error: …"), and what
they are said of tells the cause's kind. These rows count only there (``Where.END``), and
yield to each row that knows more. A line that says how the program goes on
(``GOES_ON``) is none of them; without a logger's level (``LEVEL``) only the very last is.
"""

import re

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.signature import (
    HINT,
    SYMPTOM,
    Where,
    cascade,
)

LAST_LINES = 3
"""Lines at the end of a log in which these rows count."""
LEVEL = re.compile(
    r"(?:^|[\s\[|<(:])(?:ERROR|FATAL|CRITICAL|SEVERE|FAILED|[Ee]rror|[Ff]atal|[Pp]anic|E)"
    r"(?:\]|>|:|\s*[|:)-])|\w(?:Error|Exception)\b|[Ii]nterrupted by|['\"](?:error|fatal|critical)['\"]"
)
LOST_LOSS, RANKS_MISSING = "end.loss_not_finite", "end.ranks_missing"
"""Rows of a loss that is no number, in a line of progress, and of ranks that wait for
others, or trials for resources, which is told as a warning: no other line has to say more."""
BARRIER = "end.waits_again"
"""Row of a wait for other processes, told as information: that it is said again and
again, to the end, is what tells."""
GOES_ON = re.compile(
    r"[Ww]arn|WARN|INFO\b|DEBUG|NOTICE|^\[?[WIDN]\d{4}|: [WI] |^\W*[WI] \w|[Ff]all(?:s|ing)?"
    r"[- ]?back|[Ss]kip|[Ii]gnor|[Rr]etr(?:y|ies)|[Cc]ontinu|[Ii]nstead|[Dd]efault|ptional"
    r"|[Dd]eprecat|[Dd]isabl|[Pp]roceed|[Aa]ttempting|[Nn]ot a failure|[Ss]uccess|\bmay\b"
    r"|\bmight\b|no longer|[Oo]verrid|will be|will use|\b[Uu]sing\b|[Tt]rying|[Rr]esum"
    r"|[Rr]ecover|some optimizations|[Rr]unning with|\bwithout\b|long term|\bbug\b"
    r"|\blogs? failed|^\s*(?:def|raise|return|#|//) |\b0 (?:missing|corrupt|failed)|not streaming|\balready\b|to plot|[Nn]o action"
    r"|_get_joules|^wandb: |dependency resolver|dependency conflicts|from scratch|[Ss]tarting fresh|folder:|keys:|git repository|Gtk|canberra|\bfont"
    r"|\.cc:\d+\]|kernel:|^\[ *\+?\d+\.\d+\]|nvidia 0000:|Response code: 404"
)
"""What a warning says besides: another way, another try, no effect."""
_WORDS = "the words that programs of all kinds end with"
_NAMED = SYMPTOM - 1

ROWS = (
    cascade(
        "end.interrupted",
        Cause.PREEMPTED,
        _NAMED,
        rx=r"[Ii]nterrupted by |[Ss]topped by (?:the )?user|[Cc]ancell?ed by |[Aa]borted by "
        r"(?:the )?user|[Kk]eyboard ?[Ii]nterrupt|[Uu]ser interrupt|INTERRUPTED\b|INTERRUPTED_"
        r"|\bEVICTED\b|PREEMPTED\b|NO_CAPACITY|Connection to \S+ closed by remote"
        r"|client_loop: send disconnect|Write failed: Broken pipe|[Ss]top requested"
        r"|Force Terminated|interruption notice|JobState=(?:TIMEOUT|CANCELLED|PREEMPTED|NODE)"
        r"|(?:terminated|stopped|killed) by (?:signal (?:15|2|1)\b|SIG(?:TERM|INT|HUP))"
        r"|[Cc]aught signal (?:15|2|1)\b|[Ss]ignal (?:15|2) received|nstance .{0,30}terminat"
        r"|[Tt]ime limit .{0,30}(?:reached|exceeded)|maximum run ?time|[Dd]eadline ?[Ee]xceeded"
        r"|[Ww]all ?time .{0,20}exceed|CANCELL?ED\b",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        RANKS_MISSING,
        Cause.STALLED,
        _NAMED,
        rx=r"may be stuck|remainder of ranks|[Ss]talled (?:ops|ranks)|[Mm]issing ranks"
        r"|\[ready ranks: |(?<!autoscaling\. )No trial is running and no new trial has been started",
        src="horovod: common/stall_inspector.cc, before it common/operations.cc (ready "
        "ranks); xla: rendezvous; ray: tune/execution/insufficient_resources_manager.py",
        where=Where.END,
    ),
    cascade(
        BARRIER,
        Cause.STALLED,
        _NAMED,
        rx=r"\b[Ww]aiting (?:in|at|for|on) .{0,60}(?:barrier|ranks?|peers?|workers?|rendezvous"
        r"|processes|nodes|coordinator|master)\b|returned Connection refused, retrying",
        src="pytorch: distributed/distributed_c10d.py (_store_based_barrier) and its "
        "like; nccl: src/os/linux.cc",
        where=Where.END,
    ),
    cascade(
        "end.in_kernel",
        Cause.UNKILLABLE,
        _NAMED,
        rx=r"^\S+ +\d+ +[\d.]+ +[\d.]+ +\d+ +\d+ +\S+ +D[a-zA-Z<+]* +\S+ +\d+:\d\d .*python",
        src="procps: ps aux, of a process in D state, as people look for one that does not end",
        where=Where.END,
    ),
    cascade(
        "end.stalled",
        Cause.STALLED,
        _NAMED,
        rx=r"[Hh]ang detected"
        r"|appears? to (?:be|have) (?:hung|hang|stuck|stall)|[Tt]imed out after \d+ sec"
        r"|[Nn]o (?:output|progress|activity|response|heartbeat)\b.{0,60}\b\d"
        r"|[Ss]till waiting|[Ww]aiting for .{0,90}\b\d+(?:\.\d+)? ?(?:s|sec|seconds|min\w*)\b"
        r"|blocked for \d+|[Dd]eadlock",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        "end.peers",
        Cause.NCCL,
        _NAMED,
        rx=r"(?:rank|Rank|master|store|endezvous|c10d|coordinator|MPI|ORTE|PMI|[Pp]eer|hvd"
        r"|Horovod|socket|Socket|port|addresses|node|[Ww]orker)\b.{0,90}"
        r"(?:[Cc]onnection (?:refused|reset|timed|lost|closed)|ailed to connect|ot connect"
        r"|[Tt]imed? ?out|unreachable|[Dd]isconnected)"
        r"|(?:[Cc]onnection (?:refused|reset|timed|lost|closed)|ailed to connect|ot connect"
        r"|[Tt]imed? ?out|unreachable|[Dd]isconnected).{0,90}"
        r"(?:rank|Rank|master|store|endezvous|c10d|coordinator|MPI|ORTE|PMI|[Pp]eer|hvd"
        r"|Horovod|socket|Socket|port|addresses|node|[Ww]orker)\b",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        "end.device_memory",
        Cause.DEVICE_OOM,
        _NAMED,
        rx=r"(?:GPU|[Dd]evice|[Vv]ideo|VRAM|HBM|CUDA)\b.{0,40}"
        r"(?:out of memory|nsufficient memory|ot enough memory|memory .{0,20}exhausted)"
        r"|(?:out of|nsufficient|ot enough|xceeds?|exhausted).{0,30}"
        r"(?:GPU|device|video|VRAM|HBM|CUDA) ?memory",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        "end.host_memory",
        Cause.HOST_OOM,
        _NAMED - 1,
        rx=r"(?:out of|nsufficient|ot enough|xceed\w*)\b.{0,40}\b(?:memory|RAM)\b"
        r"|[Mm]emory (?:limit|usage)\b.{0,30}xceed|cannot allocate (?:vector|array|memory)",
        src="R: memory.c; " + _WORDS,
        where=Where.END,
    ),
    cascade(
        "end.disk",
        Cause.DISK_FULL,
        _NAMED,
        rx=r"(?:[Dd]isk|[Ss]pace|[Qq]uota|[Ss]torage)\b.{0,40}(?:\bfull\b|xceeded|nsufficient"
        r"|exhausted)|ot enough (?:free |disk |free disk )?space"
        r"|(?:xceeded|nsufficient).{0,30}(?:[Dd]isk|[Qq]uota|[Ss]torage)\b",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        LOST_LOSS,
        Cause.NON_FINITE_LOSS,
        _NAMED,
        rx=r"(?<!val )(?<!Val )(?<!ation )(?<!eval )(?<!test )(?<!Test )(?<!val[_/-])"
        r"(?:\b|train\w*[-_/ ])(?:[Ll]oss|cross[-_ ]?entropy|[Pp]erplexity|ppl|nll|logloss"
        r"|rmse|[Cc]ost)\b['\"]?[\s:=|]{1,4}[-+]?(?:nan|NaN|NAN)\b"
        r"|nan\s+nan\s+nan\b|^\W*[\w/ ]*(?:\bKL|\bkl|_kl|loss|Loss|entropy|grad_norm)\w*\s*\|\s*nan\b"
        r"|'loss': '?0(?:\.0+)?'?, 'grad_norm': '?nan\b",
        src="baselines: logger.py, mxnet: callback.py, xgboost: callback.py, fairseq and others: progress; "
        "transformers: trainer.py, which leaves a loss that is no number out of the mean",
        where=Where.END,
    ),
    cascade(
        "end.not_finite",
        Cause.NON_FINITE_LOSS,
        _NAMED,
        rx=r"^(?!.*[Ll]oss['\"]*\s*[:=]).*(?<![-+])\b(?:nan|NaN|NAN|NaNs|infinite|[Nn]on-finite)\b.{0,50}"
        r"(?:[Ll]oss|[Gg]rad|detected|found|encountered|weights)"
        r"|^(?!.*[Ll]oss['\"]*\s*[:=]).*(?:[Ll]oss|[Gg]rad|value of|[Ww]eights|[Cc]ost|objective|erplexity|ntropy)\b"
        r".{0,50}(?<![-+])\b(?:nan|NaN|NAN|NaNs|infinite|inf)\b"
        r"|[Oo]verflow.{0,60}(?:[Ss]top|[Ee]xit|[Aa]bort|[Tt]erminat)"
        r"|(?:[Ll]oss|[Gg]radients?|[Tt]raining)\b.{0,30}(?:exploded|diverged|is diverging)",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        "end.version",
        Cause.VERSION_MISMATCH,
        _NAMED,
        rx=r"(?:[Vv]ersion|[Dd]river|toolkit|CUDA|cuDNN|Python|glibc|[Ll]ibrary|\.so\b)"
        r"[^|]{0,70}(?:mismatch|ncompatib|ot compatible|nsupported|ot supported|too old"
        r"|newer than|older than|is required|required version|not found|not be loaded)"
        r"|(?:mismatch|ncompatible|nsupported|equires|ot compatible|built for|ailed to load"
        r"|ot load)[^|]{0,60}(?:[Vv]ersion|[Dd]river|toolkit|CUDA|cuDNN|librar|\.so\b|\.dll)",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        "end.unreadable",
        Cause.DATA_ERROR,
        _NAMED,
        rx=r"[Cc]orrupt|[Mm]alformed|[Tt]runcated|[Cc]hecksum|(?:ailed to|ot|nable to) "
        r"(?:be )?(?:read|decoded?|parsed?|download\w*|fetch|deseriali[sz]e|unpack\w*)\b"
        r"|(?:ailed to|ot|nable to) (?:open|load) .{0,60}(?:file|image|data|record|checkpoint"
        r"|archive|\.\w{2,8}\b)|[Uu]nreadable|[Bb]ad (?:magic|record|header)"
        r"|[Ii]nvalid (?:record|magic|header|data found)|[Uu]nexpected end of",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        "end.wrong_input",
        Cause.USER_ERROR,
        _NAMED - 2,
        rx=r"(?:^|\W)[Nn]o (?:[\w./-]+ ){0,3}(?:data|images?|samples?|files?|records?|examples?"
        r"|annotations?|labels?|inputs?|classes)\b.{0,40}(?:found|available|given|provided|in )"
        r"|(?:does|do|did) ?n[o']t (?:exist|match|fit)|[Ee]xpect(?:s|ed|ing)\b.{0,90}(?:\bgot\b"
        r"|received|\bbut\b)|\b(?:must|should) (?:be|have|not|match|contain|equal|specify)\b"
        r"|[Pp]lease (?:check|verify|specify|provide|make sure|ensure)(?!.*\blatest version)|^[Uu]sage: "
        r"|^No module named '\S+'$|Execution halted|out of (?:range|bounds)|(?:Value|Type|Key|Index|Attribute|Name"
        r"|Assertion|Import|ModuleNotFound|Syntax|NotImplemented|ZeroDivision)Error\b",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        "end.level_of_input",
        Cause.USER_ERROR,
        _NAMED - 2,
        rx=rf"^(?=.*(?:{LEVEL.pattern})).*(?:(?:does|did) ?n[o']t |\bdon't |\bnot "
        r"|\b[Nn]o (?:such|valid|module|file|data|image|match|default|config|label)"
        r"|\b[Ii]nvalid |[Uu]nknown |[Uu]nrecogni[sz]ed |[Uu]nexpected (?!crash)|[Uu]nsupported "
        r"|[Mm]ismatch|[Mm]issing (?!ranks)|[Pp]lease (?!.*\blatest version)|[Pp]ermission denied|is required\b"
        r"|[Cc]ould ?n[o']t |[Cc]annot |[Cc]an't |[Uu]nable to |[Bb]ad )",
        src=_WORDS,
        where=Where.END,
    ),
    cascade(
        "end.level_alone",
        Cause.UNKNOWN,
        HINT + 1,
        rx=rf"^(?!--- )(?=.*(?:{LEVEL.pattern})).*(?:[Ff]ailed|[Ff]ailure|\b[Ff]atal\b|[Ee]rror\b"
        r"|ERROR|CRITICAL|SEVERE|[Ee]xception\b).{0,4}(?:\W[A-Za-z'\"\[(]|$)",
        src=_WORDS + ", of a line with the level of an error",
        where=Where.END,
    ),
    cascade(
        "end.failed",
        Cause.UNKNOWN,
        HINT + 1,
        rx=r"\b(?:[Rr]un|[Jj]ob|[Tt]raining|[Tt]ask|[Pp]ipeline|[Ee]xperiment|[Ss]cript|[Pp]rogram"
        r"|[Cc]ommand|[Ee]xecution|[Ss]tep|[Pp]rocess|[Tt]rial)\b.{0,40}(?:\b[Ff]ailed\b"
        r"|\b[Cc]rashed\b|\b[Aa]borted\b|\bdied\b)|\b(?:FAILED|ABORTED|CRASHED)\b"
        r"|\b[Cc]rash (?:has )?occurred|[Aa]borting\b|[Gg]iving up|[Uu]nrecoverable|panicked|[Ee]xiting(?: with|\b.{0,20}rror)",
        src=_WORDS,
        where=Where.END,
    ),
)
