import { fault } from "./values.ts";

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  "January",
  "February",
  "March",
  "April",
  "May",
  "June",
  "July",
  "August",
  "September",
  "October",
  "November",
  "December",
];

/** Python's `datetime.now().strftime(format)` of this machine's time zone, with English names. */
export function formatLocalTime(unixMs: number, format: string): string {
  const now = new Date(unixMs);
  const two = (value: number): string => String(value).padStart(2, "0");
  const hour12 = now.getHours() % 12 === 0 ? 12 : now.getHours() % 12;
  const yearStart = Date.UTC(now.getFullYear(), 0, 1);
  const dayOfYear =
    (Date.UTC(now.getFullYear(), now.getMonth(), now.getDate()) - yearStart) / 86_400_000 + 1;
  const day = DAYS[now.getDay()]!;
  const month = MONTHS[now.getMonth()]!;
  const date = `${two(now.getMonth() + 1)}/${two(now.getDate())}/${two(now.getFullYear() % 100)}`;
  const time = `${two(now.getHours())}:${two(now.getMinutes())}:${two(now.getSeconds())}`;
  const parts: Readonly<Record<string, string>> = {
    Y: String(now.getFullYear()),
    y: two(now.getFullYear() % 100),
    m: two(now.getMonth() + 1),
    d: two(now.getDate()),
    e: String(now.getDate()).padStart(2, " "),
    H: two(now.getHours()),
    I: two(hour12),
    M: two(now.getMinutes()),
    S: two(now.getSeconds()),
    f: String(now.getMilliseconds() * 1000).padStart(6, "0"),
    j: String(dayOfYear).padStart(3, "0"),
    p: now.getHours() < 12 ? "AM" : "PM",
    B: month,
    b: month.slice(0, 3),
    h: month.slice(0, 3),
    A: day,
    a: day.slice(0, 3),
    w: String(now.getDay()),
    u: String(now.getDay() === 0 ? 7 : now.getDay()),
    D: date,
    x: date,
    F: `${now.getFullYear()}-${two(now.getMonth() + 1)}-${two(now.getDate())}`,
    T: time,
    X: time,
    R: `${two(now.getHours())}:${two(now.getMinutes())}`,
    c: `${day.slice(0, 3)} ${month.slice(0, 3)} ${String(now.getDate()).padStart(2, " ")} ${time} ${now.getFullYear()}`,
    // A time without zone prints none.
    z: "",
    Z: "",
    n: "\n",
    t: "\t",
    "%": "%",
  };
  return format.replaceAll(/%(-?)([^])/gu, (whole, bare: string, directive: string) => {
    const part = parts[directive];
    if (part === undefined) throw fault(`strftime_now: the directive ${whole} is not built`);
    return bare === "" ? part : part.replace(/^[0 ]+(?=\d)/, "");
  });
}
