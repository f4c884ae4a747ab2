// The switch between light, dark and what the system says; kept in this browser.
import { SegmentedControl, useMantineColorScheme } from '@mantine/core';
import { DarkIcon, LightIcon, SystemSchemeIcon } from '../parts/icons.ts';
import { texts } from '../texts.ts';

const schemes = ['light', 'dark', 'auto'] as const;
const icons = { light: LightIcon, dark: DarkIcon, auto: SystemSchemeIcon };

export function SchemeSwitch() {
  // Holding them back writes a style element.
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  return (
    <SegmentedControl
      aria-label={texts.scheme.label}
      value={colorScheme}
      onChange={(value) => setColorScheme(schemes.find((one) => one === value) ?? 'auto')}
      data={schemes.map((value) => ({ value, label: <Scheme value={value} /> }))}
    />
  );
}

function Scheme({ value }: { readonly value: (typeof schemes)[number] }) {
  const Icon = icons[value];
  return (
    <span title={texts.scheme[value]} className="scheme">
      <Icon size={14} />
      <span className="unseen">{texts.scheme[value]}</span>
    </span>
  );
}
