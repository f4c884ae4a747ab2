// The switch between light, dark and what the system says; kept in this browser.
import { SegmentedControl, useMantineColorScheme } from '@mantine/core';
import { texts } from '../texts.ts';

const schemes = ['light', 'dark', 'auto'] as const;
const symbols = { light: '☀', dark: '☾', auto: 'A' };

export function SchemeSwitch() {
  // Holding them back writes a style element.
  const { colorScheme, setColorScheme } = useMantineColorScheme({ keepTransitions: true });
  return (
    <SegmentedControl
      size="xs"
      withItemsBorders={false}
      aria-label={texts.scheme.label}
      value={colorScheme}
      onChange={(value) => setColorScheme(schemes.find((one) => one === value) ?? 'auto')}
      data={schemes.map((value) => ({
        value,
        label: (
          <span title={texts.scheme[value]}>
            <span aria-hidden="true">{symbols[value]}</span>
            <span className="unseen">{texts.scheme[value]}</span>
          </span>
        ),
      }))}
    />
  );
}
